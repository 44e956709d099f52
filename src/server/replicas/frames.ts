import { createCipheriv, createDecipheriv, createHmac, type KeyObject, randomBytes } from 'node:crypto'
import { isSameSecret } from '#kernel/base/hash'

/*
 * Tickets and sealed frames of requests between replicas. Used by both ends of a forwarded call.
 * Invariant: without the key of the store no frame can be read, forged, replayed or reordered.
 */

const ALGORITHM = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16
const LENGTH_BYTES = 4
const NONCE_BYTES = 18
const SCHEME = 'Collet'

/** Authenticates a request between replicas before its body is read; names the request's receiver, time and nonce. */
export interface Ticket {
  /** The writer that may accept the ticket. */
  readonly to: string
  readonly atMs: number
  /** A random value that is never used twice. */
  readonly nonce: string
}

export function newTicket(to: string, atMs: number): Ticket {
  return { to, atMs, nonce: randomBytes(NONCE_BYTES).toString('base64url') }
}

/** Encodes a ticket as the `Authorization` header, which is checked before the body is read. */
export function writeTicket(key: KeyObject, ticket: Ticket): string {
  const { to, atMs, nonce } = ticket
  return `${SCHEME} ${to} ${atMs} ${nonce} ${proofOf(key, ticket)}`
}

/** Decodes the header; `undefined` if it was not written with the key. */
export function readTicket(key: KeyObject, header: string | undefined): Ticket | undefined {
  const [scheme, to = '', at = '', nonce = '', proof = '', ...more] = (header ?? '').split(' ')
  if (scheme !== SCHEME || more.length > 0 || !/^[0-9]{1,15}$/.test(at)) return undefined
  const ticket = { to, atMs: Number(at), nonce }
  return isSameSecret(proof, proofOf(key, ticket)) ? ticket : undefined
}

function proofOf(key: KeyObject, { to, atMs, nonce }: Ticket): string {
  return createHmac('sha256', key)
    .update(JSON.stringify(['replica ticket', to, atMs, nonce]))
    .digest('base64url')
}

/** Direction of a frame; a frame that is sent back to its sender is invalid. */
type Direction = 'there' | 'back'

/**
 * One direction of one exchange: texts, each sealed with its position, so that without the key no text can be read, changed,
 * dropped, repeated or reordered. The texts contain callers' credentials.
 */
export class FrameWriter {
  readonly #key: KeyObject
  readonly #context: string
  #next = 0

  constructor(key: KeyObject, { nonce }: Ticket, direction: Direction) {
    this.#key = key
    this.#context = `${direction} ${nonce}`
  }

  write(text: string): Buffer {
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, iv, { authTagLength: TAG_BYTES })
    cipher.setAAD(Buffer.from(`${this.#context} ${this.#next}`))
    this.#next += 1
    const sealed = Buffer.concat([cipher.update(text), cipher.final()])
    const length = Buffer.alloc(LENGTH_BYTES)
    length.writeUInt32BE(IV_BYTES + sealed.length + TAG_BYTES)
    return Buffer.concat([length, iv, sealed, cipher.getAuthTag()])
  }
}

export class FrameReader {
  readonly #key: KeyObject
  readonly #context: string
  readonly #maxBytes: number
  #next = 0
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(key: KeyObject, { nonce }: Ticket, direction: Direction, maxBytes: number) {
    this.#key = key
    this.#context = `${direction} ${nonce}`
    this.#maxBytes = maxBytes
  }

  /** Returns the complete frames. Throws for bytes that are not a frame of this exchange, and for a frame that is too long. */
  read(chunk: Buffer): readonly string[] {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    const found: string[] = []
    for (let length = this.#lengthOfNext(); length !== undefined; length = this.#lengthOfNext()) {
      const all = Buffer.concat(this.#chunks)
      const end = LENGTH_BYTES + length
      found.push(this.#open(all.subarray(LENGTH_BYTES, end)))
      this.#chunks = [all.subarray(end)]
      this.#bytes = all.length - end
    }
    return found
  }

  /** Length of the next complete frame. */
  #lengthOfNext(): number | undefined {
    if (this.#bytes < LENGTH_BYTES) return undefined
    const [first] = this.#chunks
    const head = first !== undefined && first.length >= LENGTH_BYTES ? first : Buffer.concat(this.#chunks)
    const length = head.readUInt32BE()
    if (length < IV_BYTES + TAG_BYTES || length > this.#maxBytes)
      throw new Error('a frame has an impossible length')
    return this.#bytes >= LENGTH_BYTES + length ? length : undefined
  }

  #open(sealed: Buffer): string {
    const iv = sealed.subarray(0, IV_BYTES)
    const decipher = createDecipheriv(ALGORITHM, this.#key, iv, { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(`${this.#context} ${this.#next}`))
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
    this.#next += 1
    const plain = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()])
    return plain.toString('utf8')
  }
}
