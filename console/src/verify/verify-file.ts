import { fromBase64Url, type ReceiptHeader, signedText, toBase64Url } from '../../../src/receipts/format.ts'
import {
  BadReceipt,
  type Hashed,
  type ProvenCall,
  ReceiptLines,
  signatureIn,
} from '../../../src/receipts/verify.ts'

/*
 * Verifies a receipt file with the browser's own cryptography. `page.tsx` uses it. The file stays in the page: this module sends
 * no request.
 */

export interface VerifiedReceipts {
  readonly header: ReceiptHeader
  readonly blocks: number
  readonly calls: readonly ProvenCall[]
}

/** Whether this browser and this address offer what is needed: Ed25519, which browsers allow only on secure addresses. */
export async function canVerify(): Promise<boolean> {
  try {
    await crypto.subtle.importKey('raw', new Uint8Array(KEY_BYTES), 'Ed25519', false, ['verify'])
    return true
  } catch {
    return false
  }
}

const KEY_BYTES = 32
const NEWLINE = 10

/** Throws `BadReceipt` unless every byte of the file is as it was signed by the key in its header. */
export async function verifyBytes(
  bytes: Uint8Array<ArrayBuffer>,
  onCalls: (calls: number) => void,
): Promise<VerifiedReceipts> {
  if (bytes.at(-1) !== NEWLINE) throw new BadReceipt('The file has no signature: it is incomplete.')
  const lines = readText(bytes).split('\n').slice(0, -1)
  const last = lines.at(-1) ?? ''
  const signature = signatureIn(last)
  if (signature === undefined) throw new BadReceipt('The file has no signature: it is incomplete.')
  const reader = new ReceiptLines()
  const calls: ProvenCall[] = []
  for (const line of lines.slice(0, -1)) {
    const call = await drive(reader.take(line))
    if (call === undefined) continue
    calls.push(call)
    if (calls.length % PROGRESS === 0) onCalls(calls.length)
  }
  const { header } = reader
  const body = bytes.subarray(0, bytes.length - new TextEncoder().encode(last).length - 1)
  const message = signedText(toBase64Url(await digest(body)))
  if (!(await isSigned(header.key.public_key, signature, message)))
    throw new BadReceipt(
      'The signature does not fit the file: the file was changed, or another key signed it.',
    )
  return { header, blocks: reader.blocks.length, calls }
}

const PROGRESS = 50

function readText(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new BadReceipt('The file is not UTF-8: it is not a receipt file, or was changed.')
  }
}

async function isSigned(
  publicKey: string,
  signature: Uint8Array<ArrayBuffer>,
  message: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const raw = fromBase64Url(publicKey)
  if (raw?.length !== KEY_BYTES) throw new BadReceipt('The public key in the header is not an Ed25519 key.')
  const key = await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify'])
  return await crypto.subtle.verify('Ed25519', key, signature, message)
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

async function drive<Result>(work: Hashed<Result>): Promise<Result> {
  let step = work.next()
  while (step.done !== true) step = work.next(await digest(step.value))
  return step.value
}
