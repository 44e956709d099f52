import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { StoreError } from '#core/errors'

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts under one writer's data key. The nonce is a counter, so a key never sees one twice. */
export class Sealer {
  readonly #key: KeyObject
  #counter = 0n

  constructor(key: Buffer) {
    this.#key = createSecretKey(key)
  }

  seal(plain: string, place: string): Buffer {
    const nonce = Buffer.alloc(NONCE_BYTES)
    nonce.writeBigUInt64BE(this.#counter, NONCE_BYTES - 8)
    this.#counter += 1n
    return encrypt({ key: this.#key, nonce, plain: Buffer.from(plain), place })
  }
}

export function newDataKey(): Buffer {
  return randomBytes(32)
}

/** The data key as the store keeps it. The wrapping nonce is random: one key wraps few keys. */
export function wrapDataKey(wrapKey: Buffer, dataKey: Buffer, writer: string): Buffer {
  return encrypt({ key: wrapKey, nonce: randomBytes(NONCE_BYTES), plain: dataKey, place: `writer ${writer}` })
}

export function unwrapDataKey(wrapKey: Buffer, wrapped: Uint8Array, writer: string): Buffer {
  return unseal(wrapKey, wrapped, `writer ${writer}`)
}

/** Under a random nonce: for keys that seal few things. */
export function sealOnce(key: Buffer, plain: Buffer, place: string): Buffer {
  return encrypt({ key, nonce: randomBytes(NONCE_BYTES), plain, place })
}

/** Throws `unreadable` when the bytes, the key or the place do not fit together (rule 14). */
export function unseal(key: Buffer, sealed: Uint8Array, place: string): Buffer {
  try {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(Buffer.from(place))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch (cause) {
    throw new StoreError(
      'unreadable',
      `stored data of ${place} cannot be decrypted: it was changed or the key is wrong`,
      {
        cause,
      },
    )
  }
}

function encrypt(sealing: {
  readonly key: Buffer | KeyObject
  readonly nonce: Buffer
  readonly plain: Buffer
  readonly place: string
}): Buffer {
  const cipher = createCipheriv(ALGORITHM, sealing.key, sealing.nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(sealing.place))
  return Buffer.concat([sealing.nonce, cipher.update(sealing.plain), cipher.final(), cipher.getAuthTag()])
}
