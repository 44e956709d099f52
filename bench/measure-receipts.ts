import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { verifyReceiptFile } from '#cli/audit/verify-file'
import { callPages, callRows, journalRows } from '#server/audit/export-rows'
import { exportText } from '#server/audit/export-text'
import { receiptFile } from '#server/audit/receipt-file'
import type { CallProof } from '#store/audit/receipts'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { callNow } from '../test/contracts/receipt-store-contract.ts'
import { attemptAt, success } from '../test/contracts/samples.ts'

/**
 * Measures what an auditor does with a large store: exports of the journal and of calls, and files with many receipts. Run it alone:
 * `node --expose-gc --conditions=collet-source bench/measure-receipts.ts [CALLS] [RECEIPTS]`.
 */

const [calls = 500_000, receipts = 100_000] = process.argv.slice(2).map(Number)
const AT_ONCE = 200
const folder = mkdtempSync(join(import.meta.dirname, '../.collet-receipts-'))
const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey: new Uint8Array(32) })
const ended = new AbortController().signal

async function timed<T>(name: string, work: () => Promise<T>, detail: (result: T) => string): Promise<void> {
  globalThis.gc?.()
  const before = process.memoryUsage().rss
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 50)
  const startedMs = performance.now()
  const result = await work()
  clearInterval(timer)
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1)
  const mb = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`
  console.log(`${name}: ${seconds} s, ${detail(result)}; RSS ${mb(before)} before, at most ${mb(peak)}`)
}

async function save(name: string, pieces: AsyncIterable<string>): Promise<string> {
  const path = join(folder, name)
  await pipeline(Readable.from(pieces), createWriteStream(path))
  return path
}

async function linesOf(path: string): Promise<number> {
  let lines = 0
  for await (const chunk of createReadStream(path)) for (const byte of chunk) if (byte === 10) lines += 1
  return lines
}

async function fill(): Promise<void> {
  for (let n = 0; n < calls; n += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, index) =>
      callNow({ record: `record-${n + index}`, callId: `call-${n + index}` }),
    )
    await Promise.all(batch.map((call) => store.claim(call)))
    await Promise.all(
      batch.map((call) =>
        store.finish({
          run: attemptAt(call, 1),
          state: 'succeeded',
          outcome: success('1'),
          atMs: Date.now(),
        }),
      ),
    )
  }
}

try {
  await timed('fill', fill, () => `${calls} calls`)
  for (const format of ['csv', 'jsonl'] as const) {
    const rows = journalRows(store, { sight: { tenant: undefined } }, new Map())(ended)
    await timed(
      `export journal ${format}`,
      () =>
        save(`journal.${format}`, exportText(format, rows)).then(
          async (path) => [path, await linesOf(path)] as const,
        ),
      ([path, lines]) => `${lines} lines, ${Math.round(statSync(path).size / 1e6)} MB`,
    )
  }
  await timed(
    'export calls csv',
    () => save('calls.csv', exportText('csv', callRows(store, {})(ended))).then(linesOf),
    (lines) => `${lines} lines`,
  )
  await timed(
    'make blocks',
    async () => {
      let blocks = 0
      while (await store.blocks.makeSome(Date.now())) blocks += 1
      return blocks
    },
    (blocks) => `${blocks} blocks`,
  )
  async function* proofs(): AsyncGenerator<CallProof> {
    let left = receipts
    for await (const page of callPages(store, {}, ended))
      for (const { record } of page) {
        if (left === 0) return
        left -= 1
        const proof = await store.receipts.prove({ record, withContents: false }, Date.now())
        if (proof !== undefined) yield proof
      }
  }
  const atMs = Date.now()
  const signer = await store.receiptKeys.signer({ by: 'bench', atMs })
  const file = receiptFile(proofs(), { issuer: 'bench', atMs, signer, blocks: store.blocks, linkedTo: [] })
  let path = ''
  await timed(
    'write receipts',
    async () => {
      path = await save('receipts.jsonl', file)
    },
    () => `${Math.round(statSync(path).size / 1e6)} MB`,
  )
  for (let round = 0; round < 3; round += 1)
    await timed(
      'verify receipts',
      () => verifyReceiptFile(createReadStream(path, { highWaterMark: 1 << 20 })),
      ({ lines }) => `${lines.calls} calls in ${lines.blocks.length} blocks`,
    )
} finally {
  await store.close()
  rmSync(folder, { recursive: true })
}
