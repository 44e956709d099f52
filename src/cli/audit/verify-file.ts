import { createHash, createPublicKey, hash, verify } from 'node:crypto'
import { LineReader } from '#kernel/base/bytes'
import { type ReceiptHeader, type ReceiptKey, signedText } from '#receipts/format'
import { BadReceipt, type Hashed, type ProvenCall, ReceiptLines, signatureIn } from '#receipts/verify'

/**
 * Verifies a receipt file with Node's hashes, line by line, so that a file with very many receipts needs little memory. `collet verify`
 * is the user. Calls are passed on before the signature is checked, so they count only if the function returns.
 */

export interface VerifiedFile {
  readonly header: ReceiptHeader
  readonly lines: ReceiptLines
}

/** Throws `BadReceipt` unless every byte of the file is as it was signed by the key in its header. */
export async function verifyReceiptFile(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onCall: (call: ProvenCall) => void = () => undefined,
): Promise<VerifiedFile> {
  const lines = new ReceiptLines()
  const digest = createHash('sha256')
  const reader = new LineReader(() => () => undefined)
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let signature: Uint8Array | undefined
  for await (const chunk of chunks) {
    for (const line of reader.read(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))) {
      if (signature !== undefined) throw new BadReceipt(AFTER_SIGNATURE)
      const text = decode(decoder, line)
      signature = signatureIn(text)
      if (signature !== undefined) continue
      const call = drive(lines.take(text))
      digest.update(line).update('\n')
      if (call !== undefined) onCall(call)
    }
  }
  if (reader.end().length > 0) throw new BadReceipt(signature === undefined ? UNSIGNED : AFTER_SIGNATURE)
  const { header } = lines
  if (signature === undefined) throw new BadReceipt(UNSIGNED)
  if (!verify(null, signedText(digest.digest('base64url')), keyOf(header.key), signature))
    throw new BadReceipt(
      'The signature does not fit the file: the file was changed, or another key signed it.',
    )
  return { header, lines }
}

const UNSIGNED = 'The file has no signature: it is incomplete.'
const AFTER_SIGNATURE = 'Something follows the signature: the file was changed.'

function decode(decoder: InstanceType<typeof TextDecoder>, line: Uint8Array): string {
  try {
    return decoder.decode(line)
  } catch {
    throw new BadReceipt('The file is not UTF-8: it is not a receipt file, or was changed.')
  }
}

function keyOf({ public_key }: ReceiptKey) {
  try {
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: public_key }, format: 'jwk' })
  } catch {
    throw new BadReceipt('The public key in the header is not an Ed25519 key.')
  }
}

function drive<Result>(work: Hashed<Result>): Result {
  let step = work.next()
  while (step.done !== true) step = work.next(sha256(step.value))
  return step.value
}

const HASH_BYTES = 32

/** Far cheaper than a hash that returns a buffer. */
function sha256(bytes: Uint8Array): Buffer {
  const digest = Buffer.allocUnsafe(HASH_BYTES)
  digest.write(hash('sha256', bytes, 'binary'), 'latin1')
  return digest
}
