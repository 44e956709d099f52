import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { verifyReceiptFile } from '#cli/audit/verify-file'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { callNow, receiptsOf, verified } from '../../test/contracts/receipt-store-contract.ts'
import { runThrough } from '../../test/contracts/samples.ts'
import { signedText } from './format.ts'
import { BadReceipt } from './verify.ts'

const check = (bytes: Uint8Array) => verifyReceiptFile([bytes])

describe('a receipt file', () => {
  let store: Store
  let file: Buffer
  const lines = () => file.toString().trimEnd().split('\n')
  /** The file with other lines, signed again by the server, as if the server itself were deceived. */
  const resigned = async (changed: readonly string[]) => {
    const body = `${changed.slice(0, -1).join('\n')}\n`
    const signer = await store.receiptKeys.signer({ by: 'key:x', atMs: 1 })
    const digest = createHash('sha256').update(body).digest('base64url')
    return Buffer.from(`${body}{"signature":"${signer.sign(signedText(digest)).toString('base64url')}"}\n`)
  }

  beforeAll(async () => {
    store = openSqliteStore({ path: ':memory:', masterKey: new Uint8Array(32) })
    for (let n = 0; n < 5; n += 1)
      await runThrough(store, callNow({ record: `record-${n}`, callId: `call-${n}`, userId: 'ünï' }))
    file = Buffer.from(await receiptsOf(store, ['record-1', 'record-3'], { withContents: true }))
  })

  it('is valid as it was written, in pieces of any size', async () => {
    expect((await check(file)).lines.calls).toBe(2)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 20 }), async (sizes) => {
        const ends = sizes.map((_, index) => sizes.slice(0, index + 1).reduce((sum, size) => sum + size, 0))
        const pieces = [0, ...ends].map((start, index) => file.subarray(start, ends[index] ?? file.length))
        expect((await verifyReceiptFile(pieces)).lines.calls).toBe(2)
      }),
      { numRuns: 20 },
    )
  })

  it('is refused after a change of any bit of any byte', async () => {
    const accepted: number[] = []
    for (let index = 0; index < file.length; index += 1) {
      // Every bit of the signature and of the header, whose checks differ, and a different bit of each other byte.
      const isShort = index < (lines()[0]?.length ?? 0) || index > file.length - 110
      for (const bit of isShort ? [0, 1, 2, 3, 4, 5, 6, 7] : [index % 8]) {
        const changed = Buffer.from(file)
        changed[index] = (changed[index] ?? 0) ^ (1 << bit)
        await check(changed).then(
          () => accepted.push(index),
          (error: unknown) => {
            if (!(error instanceof BadReceipt)) throw error
          },
        )
      }
    }
    expect(accepted).toEqual([])
  })

  it('is refused without any of its lines, with one twice, or with something after the signature', async () => {
    const own = lines()
    for (const index of own.keys()) {
      const text = (changed: readonly string[]) => Buffer.from(`${changed.join('\n')}\n`)
      await expect(check(text(own.toSpliced(index, 1)))).rejects.toThrow(BadReceipt)
      await expect(check(text(own.toSpliced(index, 0, own[index] ?? '')))).rejects.toThrow(BadReceipt)
    }
    await expect(check(Buffer.concat([file, Buffer.from(' ')]))).rejects.toThrow(BadReceipt)
    await expect(check(Buffer.concat([file, Buffer.from('{}\n')]))).rejects.toThrow(BadReceipt)
    await expect(check(file.subarray(0, -1))).rejects.toThrow(BadReceipt)
  })

  it('is refused for any end of the file that is missing', async () => {
    for (let length = 0; length < file.length; length += 7)
      await expect(check(file.subarray(0, length)), String(length)).rejects.toThrow(BadReceipt)
  })

  it('is refused if a proof does not lead to its block, even if the file was signed again', async () => {
    const own = lines()
    const index = own.findIndex((line) => line.startsWith('{"call"'))
    const { call } = JSON.parse(own[index] ?? '')
    const [leaf, ...rest] = call.leaves
    const withLeaf = (changed: object) =>
      own.with(index, JSON.stringify({ call: { ...call, leaves: [{ ...leaf, ...changed }, ...rest] } }))
    const text = leaf.text.replace('call-1', 'call-9')
    expect(text).not.toBe(leaf.text)
    for (const changed of [
      { text },
      { slot: leaf.slot ^ 1 },
      { salt: `${leaf.salt.slice(0, -2)}AA` },
      { path: leaf.path.slice(0, -43) },
      { block: leaf.block + 1 },
      { slot: leaf.slot + 512 },
      { slot: -1 },
    ])
      await expect(check(await resigned(withLeaf(changed))), JSON.stringify(changed)).rejects.toThrow(
        BadReceipt,
      )
    await expect(check(await resigned(withLeaf({})))).resolves.toBeDefined()
    const renamed = own.with(index, JSON.stringify({ call: { ...call, record: 'record-2' } }))
    await expect(check(await resigned(renamed))).rejects.toThrow('is about something else')
  })

  it('is refused if the disclosed input or outcome is not the recorded one', async () => {
    const own = lines()
    const index = own.findIndex((line) => line.startsWith('{"call"'))
    const { call } = JSON.parse(own[index] ?? '')
    for (const member of ['input', 'outcome']) {
      const changed = { ...call, [member]: { ...call[member], json: '{"other":1}' } }
      const bytes = await resigned(own.with(index, JSON.stringify({ call: changed })))
      await expect(check(bytes)).rejects.toThrow(`The ${member} in the file is not the recorded one.`)
    }
  })

  it('is refused if two blocks of a chain are not linked', async () => {
    for (let n = 5; n < 8; n += 1) {
      await runThrough(store, callNow({ record: `record-${n}`, callId: `call-${n}` }))
      while (await store.blocks.makeSome(Date.now()));
    }
    const whole = await receiptsOf(store, ['record-5', 'record-6', 'record-7'])
    const { lines: read } = await verified(whole)
    expect(read.blocks.length).toBeGreaterThan(1)
    const own = whole.trimEnd().split('\n')
    const last = own.findLastIndex((line) => line.startsWith('{"block"'))
    const changed = own.with(last, (own[last] ?? '').replace(/"before":"./, '"before":"-'))
    await expect(check(await resigned(changed))).rejects.toThrow('does not follow the block before it')
  })
})
