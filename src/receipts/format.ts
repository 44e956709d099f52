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

/** Overwritten by the next call: hash the bytes first. */
export function nodeBytes(left: Uint8Array, right: Uint8Array): Uint8Array<ArrayBuffer> {
  node[0] = NODE
  node.set(left, 1)
  node.set(right, 1 + HASH_BYTES)
  return node
}

const node = new Uint8Array(1 + 2 * HASH_BYTES)

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

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** The value of each character of the alphabet, by its code; -1 for all others. */
const VALUES = Int8Array.from({ length: 128 }, (_, code) => ALPHABET.indexOf(String.fromCharCode(code)))
const [BITS_PER_CHARACTER, BITS_PER_BYTE] = [6, 8] as const

export function toBase64Url(bytes: Uint8Array): string {
  let [text, held, bits] = ['', 0, 0]
  for (const byte of bytes) {
    held = ((held << BITS_PER_BYTE) | byte) & 0xffff
    for (bits += BITS_PER_BYTE; bits >= BITS_PER_CHARACTER; bits -= BITS_PER_CHARACTER)
      text += ALPHABET[(held >> (bits - BITS_PER_CHARACTER)) & 63]
  }
  return bits === 0 ? text : text + ALPHABET[(held << (BITS_PER_CHARACTER - bits)) & 63]
}

/** `undefined` unless the text is the only spelling of its bytes. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.length % 4 === 1) return undefined
  const bytes = new Uint8Array(Math.floor((text.length * BITS_PER_CHARACTER) / BITS_PER_BYTE))
  let [held, bits, at] = [0, 0, 0]
  for (let index = 0; index < text.length; index += 1) {
    const value = VALUES[text.charCodeAt(index)] ?? -1
    if (value < 0) return undefined
    held = ((held << BITS_PER_CHARACTER) | value) & 0xffff
    bits += BITS_PER_CHARACTER
    if (bits < BITS_PER_BYTE) continue
    bits -= BITS_PER_BYTE
    bytes[at] = held >> bits
    at += 1
  }
  // Bits after the last byte are zero in the only valid spelling.
  return (held & ((1 << bits) - 1)) === 0 ? bytes : undefined
}
