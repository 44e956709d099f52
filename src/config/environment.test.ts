import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { decodeMasterKey, decodeMasterKeys, readEnvironment } from './environment.ts'

describe('readEnvironment', () => {
  it('reads known variables and treats empty ones as unset', () => {
    const environment = readEnvironment({
      COLLET_CONFIG: 'a.ts',
      COLLET_URL: '',
      NO_COLOR: '1',
      COLLET_API_KEY: 'k',
    })
    expect(environment.configFile).toBe('a.ts')
    expect(environment.url).toBeUndefined()
    expect(environment.noColor).toBe(true)
    expect(environment.apiKey?.reveal()).toBe('k')
    expect(JSON.stringify(environment)).not.toContain('"k"')
  })
})

describe('a key in a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-key-file-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const fileWith = (text: string): string => {
    const file = join(folder, randomUUID())
    writeFileSync(file, text)
    return file
  }
  const bytes = Buffer.alloc(32, 7)

  it.each([
    ['masterKey', 'COLLET_KEY_FILE'],
    ['oldMasterKey', 'COLLET_KEY_OLD_FILE'],
  ] as const)('%s is read from the file that %s names', (member, name) => {
    const environment = readEnvironment({ [name]: fileWith(`${bytes.toString('base64')}\n`) })
    expect(decodeMasterKeys(environment)).toMatchObject({ [member]: new Uint8Array(bytes) })
  })

  it('names the file that cannot be read', () => {
    const environment = readEnvironment({ COLLET_KEY_FILE: join(folder, 'missing') })
    expect(() => decodeMasterKeys(environment)).toThrow(
      /COLLET_KEY_FILE: .*missing.* cannot be read \(ENOENT\)/,
    )
  })

  it('refuses two keys for one purpose', () => {
    const key = bytes.toString('base64')
    const environment = readEnvironment({ COLLET_KEY: key, COLLET_KEY_FILE: fileWith(key) })
    expect(() => decodeMasterKeys(environment)).toThrow(/COLLET_KEY_FILE: COLLET_KEY is also set/)
  })

  it('an empty file means no old key, and is refused as the key', () => {
    const environment = readEnvironment({ COLLET_KEY_OLD_FILE: fileWith('\n') })
    expect(environment.oldMasterKey).toBeUndefined()
    expect(() => decodeMasterKeys(readEnvironment({ COLLET_KEY_FILE: fileWith('') }))).toThrow('not base64')
  })
})

describe('decodeMasterKey', () => {
  const bytes = Buffer.alloc(32, 7)

  it('accepts 32 bytes in base64 and base64url, with or without padding', () => {
    for (const text of [
      bytes.toString('base64'),
      bytes.toString('base64url'),
      `${bytes.toString('base64')}\n`,
    ]) {
      expect(decodeMasterKey(new Secret(text))).toEqual(new Uint8Array(bytes))
    }
    expect(decodeMasterKey(undefined)).toBeUndefined()
  })

  it('rule 14: reports the number of bytes, never the bytes', () => {
    const short = Buffer.alloc(16, 9).toString('base64')
    expect(() => decodeMasterKey(new Secret(short))).toThrow(
      'COLLET_KEY: expected 32 bytes in base64; the value decodes to 16 bytes',
    )
    expect(() => decodeMasterKey(new Secret('not base64 !'))).toThrow('the value is not base64')
    expect(() => decodeMasterKey(new Secret(short))).not.toThrow(short)
  })
})
