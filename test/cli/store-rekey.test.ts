import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readEnvironment } from '#config/environment'
import { openStore } from '#store/stores'
import { runThrough, sampleCall } from '../contracts/samples.ts'
import { createDatabase } from '../store/databases.ts'
import { FakeIo } from './fake-io.ts'

const CURRENT = randomBytes(32).toString('base64')
const NEXT = randomBytes(32).toString('base64')

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-key-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const database = () => `sqlite:${join(folder, 'collet.db')}`

async function run(variables: Record<string, string>, ...argv: string[]) {
  let nowMs = Date.now()
  const io = new FakeIo(
    { openStore: ({ url, ...keys }) => openStore(url, { ...keys, mode: 'operator' }) },
    {
      environment: readEnvironment(variables),
      // Long after the announcement at each reading of the clock, so that nothing waits for readers.
      clock: { nowMs: () => (nowMs += 10_000), monotonicMs: () => performance.now() },
    },
  )
  const code = await io.run(...argv, ...(argv.includes('--store') ? [] : ['--store', database()]))
  return { code, stdout: io.stdout, stderr: io.stderr }
}

async function fill(masterKey: string | undefined): Promise<void> {
  const key = masterKey === undefined ? undefined : Buffer.from(masterKey, 'base64')
  const store = await openStore(database(), { dataFolder: folder, masterKey: key, mode: 'server' })
  await runThrough(store, sampleCall())
  await store.close()
}

describe('collet store rekey', () => {
  it('has no other name', async () => {
    const io = new FakeIo({})
    expect(await io.run('key', 'rotate')).toBe(2)
    expect(await io.run('master-key', 'rotate')).toBe(2)
  })

  it('explains what is needed, changes the key, and prints the next step', async () => {
    await fill(CURRENT)
    const lacking = await run({ COLLET_KEY: CURRENT }, 'store', 'rekey')
    expect(lacking).toMatchObject({ code: 2, stderr: expect.stringContaining('COLLET_KEY_OLD') })
    const both = { COLLET_KEY: NEXT, COLLET_KEY_OLD: CURRENT }
    expect((await run(both, 'store', 'rekey', '--status')).stdout).toContain('still under COLLET_KEY_OLD')
    const done = await run(both, 'store', 'rekey')
    expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining('Remove COLLET_KEY_OLD') })
    expect(done.stderr).toMatch(/Re-encrypted: \d+ of \d+ \(data keys\)/)
    expect((await run(both, 'store', 'rekey')).stdout).toContain('under COLLET_KEY already')
    expect((await run({ COLLET_KEY: NEXT }, 'store', 'rekey', '--status')).stdout).toContain('generation 2')
    expect(await run({ COLLET_KEY: CURRENT }, 'store', 'rekey', '--status')).toMatchObject({ code: 3 })
  })

  it.each(['sqlite', 'postgres'])(
    'on %s names the server that it waits for by host, port and pid',
    async (kind) => {
      const url = kind === 'sqlite' ? database() : await createDatabase('key_places')
      const masterKey = Buffer.from(CURRENT, 'base64')
      const server = await openStore(url, { dataFolder: folder, masterKey, mode: 'server', port: 4100 })
      try {
        await runThrough(server, sampleCall())
        const both = { COLLET_KEY: NEXT, COLLET_KEY_OLD: CURRENT }
        const place = `${hostname()}:4100 pid ${process.pid} (running since 2`
        const status = await run(both, 'store', 'rekey', '--status', '--store', url)
        expect(status.stdout).toContain(`Running without the new key: ${place}`)
        const rotated = await run(both, 'store', 'rekey', '--store', url)
        expect(rotated).toMatchObject({ code: 1, stderr: expect.stringContaining(place) })
        expect(rotated.stderr).not.toContain(server.writer)
      } finally {
        await server.close()
      }
    },
  )

  it('reads both keys from a key file of two lines', async () => {
    await fill(undefined)
    const file = join(folder, 'key')
    const current = readFileSync(file, 'utf8').trim()
    writeFileSync(file, `${NEXT}\n${current}\n`)
    expect(await run({}, 'store', 'rekey')).toMatchObject({ code: 0 })
    writeFileSync(file, `${NEXT}\n`)
    expect((await run({}, 'store', 'rekey', '--status')).stdout).toContain('generation 2')
  })
})
