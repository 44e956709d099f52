import { createInterface } from 'node:readline'
import { KeyRing } from '#kernel/store/key-ring'
import { DEFINITION } from '#store/collet-store'
import { prepareDatabase } from '#store/postgres/open'

const { migrations: MIGRATIONS } = DEFINITION

/** Migrates each database whose URL it reads, and prints the old and the new version. */
const [, , key = '', next = ''] = process.argv
const keys = new KeyRing({ current: Buffer.from(key, 'base64') })
const migrations = [...MIGRATIONS, next]
process.stdout.write('ready\n')
for await (const url of createInterface({ input: process.stdin })) {
  const { from, to } = await prepareDatabase(url, keys, { migrations })
  process.stdout.write(`${from} ${to}\n`)
}
