import { generateKeyPairSync, sign } from 'node:crypto'

export interface SelfSigned {
  readonly key: string
  readonly cert: string
}

const SEQUENCE = 0x30
const SET = 0x31
const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OBJECT_ID = 0x06
const UTF8 = 0x0c
const UTC_TIME = 0x17

/** OIDs, already encoded. */
const ECDSA_WITH_SHA256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]
const COMMON_NAME = [0x55, 0x04, 0x03]
const SUBJECT_ALT_NAME = [0x55, 0x1d, 0x11]

const DAY_MS = 86_400_000

interface SelfSignedOptions {
  /** Besides the name. */
  readonly address?: readonly number[]
  /** From now; default a day. */
  readonly lastsMs?: number
}

/** Creates a certificate for one name, so that the repository contains no private key. */
export function makeSelfSigned(name: string, nowMs: number, options: SelfSignedOptions = {}): SelfSigned {
  const { address, lastsMs = DAY_MS } = options
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = der(SEQUENCE, der(OBJECT_ID, Buffer.from(ECDSA_WITH_SHA256)))
  const holder = der(
    SEQUENCE,
    der(SET, der(SEQUENCE, der(OBJECT_ID, Buffer.from(COMMON_NAME)), der(UTF8, Buffer.from(name)))),
  )
  const addresses = address === undefined ? [] : [der(0x87, Buffer.from(address))]
  const names = der(SEQUENCE, der(0x82, Buffer.from(name)), ...addresses)
  const extension = der(SEQUENCE, der(OBJECT_ID, Buffer.from(SUBJECT_ALT_NAME)), der(OCTET_STRING, names))
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, Buffer.from([2]))),
    der(INTEGER, Buffer.from([1])),
    algorithm,
    holder,
    der(SEQUENCE, time(Math.min(nowMs, nowMs + lastsMs) - DAY_MS), time(nowMs + lastsMs)),
    holder,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(SEQUENCE, extension)),
  )
  const signature = der(BIT_STRING, Buffer.from([0]), sign('sha256', body, privateKey))
  const cert = der(SEQUENCE, body, algorithm, signature).toString('base64')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${cert.replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}

function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '')
  return der(UTC_TIME, Buffer.from(digits.slice(2)))
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
