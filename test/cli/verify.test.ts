import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { signedText } from '#receipts/format'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { callNow } from '../contracts/receipt-store-contract.ts'
import { runThrough } from '../contracts/samples.ts'
import { FakeIo } from './fake-io.ts'

const KEY = Buffer.alloc(32, 7).toString('base64')

describe('collet journal receipt and collet verify', () => {
  let folder: string
  const collet = async (...argv: string[]) => {
    const environment = readEnvironment({ COLLET_KEY: KEY, HOME: folder })
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
    return { code: await io.run(...argv), stdout: io.stdout, stderr: io.stderr }
  }
  const STORE = ['--store', 'sqlite:collet.db'] as const
  const add = async (...records: readonly string[]) => {
    const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey: Buffer.from(KEY, 'base64') })
    for (const record of records) await runThrough(store, callNow({ record, callId: record }))
    await store.close()
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-verify-'))
    await add('a-first', 'a-second', 'b-third')
    await collet('journal', 'receipt', 'b', '--out', 'receipt.jsonl', ...STORE)
    writeFileSync(join(folder, 'keys.json'), (await collet('journal', 'keys', '--json', ...STORE)).stdout)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it('prove a call to a reader who has only the file and the key', async () => {
    const { code, stdout } = await collet('verify', 'receipt.jsonl', '--key', 'keys.json')
    expect(code).toBe(0)
    expect(stdout).toContain('✓ Unchanged: 1 call, in 1 block of the journal.')
    expect(stdout).toMatch(/Call b-third\n {2}tool +Doorbell\.Ring@0\.1\.0\n/)
    expect(stdout).toMatch(/call\.succeeded/)
    expect(stdout).not.toContain('a-second')
  })

  it('take the id of the key or the key itself, and refuse other keys', async () => {
    const [{ id, public_key: publicKey }] = JSON.parse(readFileSync(join(folder, 'keys.json'), 'utf8'))
    for (const named of [id, publicKey])
      expect((await collet('verify', 'receipt.jsonl', '--key', named, '--quiet')).code).toBe(0)
    const other = await collet('verify', 'receipt.jsonl', '--key', 'A'.repeat(24))
    expect([other.code, other.stdout]).toEqual([1, `✗ Another key signed this file: ${id}.\n`])
    expect((await collet('verify', 'receipt.jsonl', '--key', 'no-such-file.json')).code).toBe(2)
  })

  it('end with 2 if no key is named, and name what is not proven', async () => {
    const { code, stdout } = await collet('verify', 'receipt.jsonl')
    expect(code).toBe(2)
    expect(stdout).toContain('Not proven: who signed this.')
    const json = JSON.parse((await collet('verify', 'receipt.jsonl', '--json')).stdout)
    expect(json).toMatchObject({ valid: true, key_named: false, calls: [{ record: 'b-third', input: null }] })
  })

  it('end with 1 for a file that was changed or cut, or is not a receipt', async () => {
    const whole = readFileSync(join(folder, 'receipt.jsonl'), 'utf8')
    for (const text of [whole.replace('b-third', 'b-thirt'), whole.slice(0, -200), '', '{}\n', 'hello']) {
      writeFileSync(join(folder, 'bad.jsonl'), text)
      const { code, stdout } = await collet('verify', 'bad.jsonl', '--key', 'keys.json')
      expect([code, stdout.startsWith('✗ ')]).toEqual([1, true])
    }
    expect((await collet('verify', 'missing.jsonl')).code).toBe(2)
  })

  it('disclose the input with --contents only', async () => {
    await collet('journal', 'receipt', 'b', '--contents', '--out', 'open.jsonl', ...STORE)
    const { stdout } = await collet('verify', 'open.jsonl', '--key', 'keys.json')
    expect(stdout).toContain('{"doorbell_id":"doorbell42"}')
    expect((await collet('verify', 'receipt.jsonl', '--key', 'keys.json')).stdout).toContain(
      '(salted digest)',
    )
  })

  it('show with an earlier file that the journal was only extended', async () => {
    await add('c-later')
    await collet(
      'journal',
      'receipt',
      'a-f',
      'c',
      '--after',
      'receipt.jsonl',
      '--out',
      'later.jsonl',
      ...STORE,
    )
    const compared = await collet('verify', 'later.jsonl', '--after', 'receipt.jsonl', '--key', 'keys.json')
    expect(compared.stdout).toContain('✓ The journal still contains what receipt.jsonl proved')
    expect(compared.code).toBe(0)
  })

  it('find a journal that was rewritten after an earlier file, even with the key of the store', async () => {
    const [line = ''] = readFileSync(join(folder, 'receipt.jsonl'), 'utf8').split('\n').slice(1)
    const { block } = JSON.parse(line)
    const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey: Buffer.from(KEY, 'base64') })
    const signer = await store.receiptKeys.signer({ by: 'x', atMs: 1 })
    const [header = ''] = readFileSync(join(folder, 'receipt.jsonl'), 'utf8').split('\n')
    const forged = JSON.stringify({ ...block, made_at: '2020-01-01T00:00:00.000Z' })
    const body = `${header}\n{"block":${forged}}\n`
    const digest = createHash('sha256').update(body).digest('base64url')
    const signature = signer.sign(signedText(digest)).toString('base64url')
    await store.close()
    writeFileSync(join(folder, 'forged.jsonl'), `${body}${JSON.stringify({ signature })}\n`)
    const { code, stdout } = await collet(
      'verify',
      'forged.jsonl',
      '--after',
      'receipt.jsonl',
      '--key',
      'keys.json',
    )
    expect([code, stdout]).toEqual([1, expect.stringContaining('✗ The journal was rewritten')])
  })
})
