/**
 * Writes a receipt file: a header, the blocks and proofs of calls, and the signature over all lines before it. The receipt routes are
 * the only user. Memory stays constant: each block is written before the first call that needs it, and the digest grows with the lines.
 */
import { createHash } from 'node:crypto'
import { type CallReceipt, FORMAT, type ReceiptHeader, signedText } from '#receipts/format'
import type { JournalBlocks, StoredBlock } from '#store/audit/journal-blocks'
import type { ReceiptSigner } from '#store/audit/receipt-keys'
import type { CallProof } from '#store/audit/receipts'

interface FileOptions {
  readonly issuer: string
  readonly atMs: number
  readonly signer: ReceiptSigner
  readonly blocks: Pick<JournalBlocks, 'newest' | 'from'>
  /** Blocks that the reader knows. */
  readonly linkedTo: readonly KnownBlock[]
}

export interface KnownBlock {
  readonly writer: string
  readonly block: number
}

export async function* receiptFile(
  proofs: AsyncIterable<CallProof>,
  { issuer, atMs, signer, blocks, linkedTo }: FileOptions,
): AsyncGenerator<string> {
  const digest = createHash('sha256')
  const signed = (line: string): string => {
    const text = `${line}\n`
    digest.update(text)
    return text
  }
  const header: ReceiptHeader = {
    collet_receipts: FORMAT,
    issuer,
    made_at: new Date(atMs).toISOString(),
    key: signer.key,
  }
  yield signed(JSON.stringify(header))
  const written = new WrittenBlocks()
  for await (const { record, leaves, blocks: needed, contents } of proofs) {
    for (const block of needed) if (written.add(block)) yield signed(blockLine(block))
    const call: CallReceipt = { record, leaves, ...contents }
    yield signed(JSON.stringify({ call }))
  }
  for await (const block of blocksBetween(blocks, linkedTo, written))
    if (written.add(block)) yield signed(blockLine(block))
  const signature = signer.sign(signedText(digest.digest('base64url'))).toString('base64url')
  yield `${JSON.stringify({ signature })}\n`
}

/** The statement stands in the line exactly as it was hashed. */
function blockLine({ text }: StoredBlock): string {
  return `{"block":${text}}`
}

/** The blocks that are in the file, by writer. */
class WrittenBlocks {
  readonly #numbers = new Map<string, Set<number>>()

  /** `false` if the block is in the file already. */
  add({ statement: { writer, block } }: StoredBlock): boolean {
    const numbers = this.#numbers.get(writer) ?? new Set()
    this.#numbers.set(writer, numbers)
    if (numbers.has(block)) return false
    numbers.add(block)
    return true
  }

  /** The lowest and the highest block of a writer; `undefined` if the file has none. */
  spanOf(writer: string): readonly [number, number] | undefined {
    const numbers = this.#numbers.get(writer)
    return numbers === undefined ? undefined : [Math.min(...numbers), Math.max(...numbers)]
  }
}

const BLOCKS_AT_ONCE = 200

/** Every block between those of the file and those that the reader knows. */
async function* blocksBetween(
  { newest, from }: FileOptions['blocks'],
  known: readonly KnownBlock[],
  written: WrittenBlocks,
): AsyncGenerator<StoredBlock> {
  if (known.length === 0) return
  const writers = new Map((await newest()).map(({ no, statement }) => [statement.writer, no]))
  for (const { writer, block } of known) {
    const [no, span] = [writers.get(writer), written.spanOf(writer)]
    if (no === undefined || span === undefined) continue
    const [first, last] = [Math.min(span[0], block), Math.max(span[1], block)]
    for (let next = first; next <= last; ) {
      const page = await from(no, next, BLOCKS_AT_ONCE)
      for (const found of page) if (found.statement.block <= last) yield found
      const end = page.at(-1)
      if (end === undefined) break
      next = end.statement.block + 1
    }
  }
}
