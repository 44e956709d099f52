import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeSelfSigned } from '../../../test/egress/self-signed.ts'
import { examineCertificate, readCertifiedKey } from './certificate.ts'

const DAY_MS = 86_400_000
const now = Date.now()
const own = makeSelfSigned('tools.example', now, { lastsMs: 30 * DAY_MS })
const other = makeSelfSigned('other.example', now)
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-certificate-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function files(cert: string | Uint8Array, key: string | Uint8Array) {
  const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  writeFileSync(paths.cert, cert)
  writeFileSync(paths.key, key, { mode: 0o600 })
  return paths
}

const encrypted = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret words' },
}).privateKey
const derCertificate = Buffer.from(own.cert.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')

describe('a certificate and its key', () => {
  it('are read with their expiry', async () => {
    const read = await readCertifiedKey(files(`comment\n${own.cert}`, own.key))
    expect(Math.abs(read.expiresAtMs - (now + 30 * DAY_MS))).toBeLessThan(2_000)
    const chained = await readCertifiedKey(files(own.cert + other.cert, own.key))
    expect(Math.abs(chained.expiresAtMs - (now + DAY_MS))).toBeLessThan(2_000)
  })

  it.each([
    ['the key of another certificate', own.cert, other.key, /key\.pem is not the key of .*cert\.pem/],
    ['swapped paths', own.key, own.cert, /server\.tls\.cert: .* contains a key, .*mixed up/],
    [
      'a certificate in place of a key',
      own.cert,
      own.cert,
      /server\.tls\.key: .* contains a certificate, .*mixed up/,
    ],
    ['an encrypted key', own.cert, encrypted, /is encrypted.*openssl pkey -in .*key\.pem -out/],
    ['the server certificate last', other.cert + own.cert, own.key, /must come first/],
    ['DER', derCertificate, own.key, /no certificate in PEM.*openssl x509 -inform der/],
    ['an empty file', '', own.key, /no certificate in PEM/],
    ['half of a key', own.cert, own.key.slice(0, 120), /key that cannot be read/],
    ['half of a certificate', own.cert.slice(0, 200), own.key, /no certificate in PEM/],
    ['a damaged line', own.cert.replace(/\nMII/, '\nAAA'), own.key, /cannot be read: number 1/],
  ])('are refused with a remedy: %s', async (_title, cert, key, message) => {
    await expect(readCertifiedKey(files(cert, key))).rejects.toThrow(message)
  })

  it('are refused if a file is missing or is a folder', async () => {
    const there = files(own.cert, own.key)
    const nowhere = join(folder, 'nowhere.pem')
    await expect(readCertifiedKey({ ...there, cert: nowhere })).rejects.toThrow(
      /does not exist.*relative to the config/,
    )
    mkdirSync(join(folder, 'live'))
    await expect(readCertifiedKey({ ...there, key: join(folder, 'live') })).rejects.toThrow(/is a folder/)
  })

  it('are checked for the doctor: expiry, and who can read the key', async () => {
    const levels = async (atMs: number) =>
      (await examineCertificate(files(own.cert, own.key), atMs)).map(({ level, message }) => [level, message])
    expect(await levels(now)).toEqual([['ok', expect.stringContaining('is valid until')]])
    expect(await levels(now + 20 * DAY_MS)).toEqual([['warn', expect.stringContaining('expires on')]])
    expect(await levels(now + 31 * DAY_MS)).toEqual([['fail', expect.stringContaining('expired on')]])
    expect(await levels(now - 2 * DAY_MS)).toEqual([['warn', expect.stringContaining('not valid before')]])
    const paths = files(own.cert, own.key)
    chmodSync(paths.key, 0o644)
    expect(await examineCertificate(paths, now)).toMatchObject([
      { level: 'ok' },
      { level: 'warn', advice: `Run: chmod 600 ${paths.key}` },
    ])
    chmodSync(paths.key, 0o600)
    expect(await examineCertificate(files(own.cert, other.key), now)).toMatchObject([{ level: 'fail' }])
    expect(await examineCertificate(undefined, now)).toEqual([])
  })
})
