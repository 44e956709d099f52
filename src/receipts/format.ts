/**
 * The format of receipt files: how the parts of a receipt are hashed and spelled. The store makes blocks with these functions, the
 * server writes files, and `verify.ts` reads them on the command line and in browsers, so this folder imports nothing.
 * A file has one JSON value in each line: a header, blocks of the journal, calls with their proofs, and a signature over all lines
 * before it. Bytes that are hashed are always the bytes of a text that stands in the file.
 */

export const FORMAT = 1

/** The first line. */
export interface ReceiptHeader {
  readonly collet_receipts: typeof FORMAT
  /** Address of the server that made the file. */
  readonly issuer: string
  readonly made_at: string
  /** The Ed25519 key that signed the file. */
  readonly key: ReceiptKey
}

export interface ReceiptKey {
  /** Derived from the public key (`keyIdOf`). */
  readonly id: string
  /** 32 bytes, in base64url. */
  readonly public_key: string
}

/** What the chain says about one block: consecutive commit groups of one writer's journal. */
export interface BlockStatement {
  readonly writer: string
  /** Number of the block in the writer's chain, from 0. */
  readonly block: number
  readonly first_group: number
  readonly last_group: number
  readonly made_at: string
  /** Levels of the block's tree. It has room for 2^depth calls. */
  readonly depth: number
  readonly root: string
  /** The journal's own link of the last group (`collet journal heads`). */
  readonly link: string
  /** Hash of the statement of the block before this one; empty for the first. */
  readonly before: string
}

/** The events of one call in one commit group, and the path from them to the root of their block. */
export interface ProvenLeaf {
  readonly writer: string
  readonly block: number
  readonly slot: number
  readonly salt: string
  /** The hashes beside the path, from the leaf to the root, one after the other. */
  readonly path: string
  /** JSON of a `LeafContent`, as it was hashed. */
  readonly text: string
}

/** What a leaf says. Digests are salted (`saltedDigest`); they are absent if the group recorded no input or outcome of the call. */
export interface LeafContent {
  readonly record: string
  readonly writer: string
  readonly group: number
  readonly committed_at: string
  /** Events of the journal, with the reasons of approvers. */
  readonly events: readonly LeafEvent[]
  readonly call_id?: string
  readonly user_id?: string
  readonly definition_hash?: string
  readonly input?: string
  readonly outcomes?: readonly { readonly attempt: number; readonly digest: string }[]
}

export type LeafEvent = Readonly<Record<string, unknown>> & { readonly type: string; readonly at: string }

/** What was recorded, so that a reader can compare it with the digests of the leaves. */
export interface OpenedContents {
  /** The input as canonical JSON. */
  readonly input?: { readonly salt: string; readonly json: string }
  /** The result as it was sent; for a failure, the recorded outcome. */
  readonly outcome?: { readonly salt: string; readonly json: string }
}

export interface CallReceipt extends OpenedContents {
  readonly record: string
  readonly leaves: readonly ProvenLeaf[]
}

const ENCODER = new TextEncoder()
export const HASH_BYTES = 32

/** Each kind of hashed bytes begins with another byte, so that a leaf can never be passed off as a node. */
const [LEAF, NODE, BLOCK] = [0, 1, 2] as const

export function leafBytes(salt: Uint8Array, text: string): Uint8Array<ArrayBuffer> {
  return joined(Uint8Array.of(LEAF), salt, ENCODER.encode(text))
}

export function nodeBytes(left: Uint8Array, right: Uint8Array): Uint8Array<ArrayBuffer> {
  return joined(Uint8Array.of(NODE), left, right)
}

/** `text` is the JSON of the statement. The hash of the bytes is the `before` of the next block. */
export function blockBytes(text: string): Uint8Array<ArrayBuffer> {
  return joined(Uint8Array.of(BLOCK), ENCODER.encode(text))
}

/** The bytes whose hash stands in a leaf for an input or an outcome; `digest` is the SHA-256 of the value, as text. */
export function saltedBytes(salt: Uint8Array, digest: string): Uint8Array<ArrayBuffer> {
  return joined(salt, ENCODER.encode(digest))
}

/** The message that is signed; `digest` is the SHA-256 of all lines before the signature, in base64url. */
export function signedText(digest: string): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(`collet-receipts ${FORMAT} ${digest}`)
}

/** The bytes whose hash begins with the id of a key. */
export function keyBytes(publicKey: string): Uint8Array<ArrayBuffer> {
  return ENCODER.encode(`collet-receipt-key ${publicKey}`)
}

/** Characters of a key's id. */
export const KEY_ID_LENGTH = 24

function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

export function toBase64Url(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** `undefined` unless the text is the only spelling of its bytes. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return undefined
  const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = new Uint8Array(plain.length)
  for (let index = 0; index < plain.length; index += 1) bytes[index] = plain.charCodeAt(index)
  const end = text.length % 4
  if (end === 0) return bytes
  const tail = toBase64Url(bytes.subarray(bytes.length - (bytes.length % 3)))
  return text.endsWith(tail) ? bytes : undefined
}
