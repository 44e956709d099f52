import { describe, expect, it } from 'vitest'
import { Secret } from '#core/secret'
import { decodeMasterKey, readEnvironment } from './environment.ts'

describe('readEnvironment', () => {
  it('reads what it knows and treats empty as unset', () => {
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

describe('decodeMasterKey', () => {
  const bytes = Buffer.alloc(32, 7)

  it('takes 32 bytes in base64 and base64url, with or without padding', () => {
    for (const text of [
      bytes.toString('base64'),
      bytes.toString('base64url'),
      `${bytes.toString('base64')}\n`,
    ]) {
      expect(decodeMasterKey(new Secret(text))).toEqual(new Uint8Array(bytes))
    }
    expect(decodeMasterKey(undefined)).toBeUndefined()
  })

  it('rule 14: says how many bytes came, never which', () => {
    const short = Buffer.alloc(16, 9).toString('base64')
    expect(() => decodeMasterKey(new Secret(short))).toThrow(
      'COLLET_KEY: expected 32 bytes in base64; these decode to 16 bytes',
    )
    expect(() => decodeMasterKey(new Secret('not base64 !'))).toThrow('this is not base64')
    expect(() => decodeMasterKey(new Secret(short))).not.toThrow(short)
  })
})
