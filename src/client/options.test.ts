import { describe, expect, it } from 'vitest'
import { CallFailure } from './failure.ts'
import { parseServerUrl } from './options.ts'

describe('parseServerUrl', () => {
  it('keeps the path and drops the trailing slash', () => {
    expect(parseServerUrl('https://tools.example.com/uts/').base).toBe('https://tools.example.com/uts')
    expect(parseServerUrl(new URL('http://127.0.0.1:4100')).base).toBe('http://127.0.0.1:4100')
  })

  it.each([
    ['https://api.example.com', true],
    ['http://localhost:4100', true],
    ['http://app.localhost', true],
    ['http://127.0.0.1', true],
    ['http://127.8.9.1', true],
    ['http://2130706433', true],
    ['http://[::1]:80', true],
    ['http://api.example.com', false],
    ['http://10.0.0.1', false],
    ['http://127.0.0.1.evil.example', false],
    ['http://localhost.evil.example', false],
    ['http://notlocalhost', false],
    ['http://[::ffff:7f00:1]', false],
    ['http://0.0.0.0', false],
  ])('OTC-101: %s may carry credentials: %s', (url, may) => {
    expect(parseServerUrl(url).mayCarryCredentials).toBe(may)
  })

  it.each([
    ['tools.example.com'],
    ['/tools'],
    ['ftp://tools.example.com'],
    ['https://user:hunter2@tools.example.com'],
    ['https://tools.example.com/?key=hunter2'],
    ['https://tools.example.com/#hunter2'],
  ])('refuses %s and does not repeat its secrets', (url) => {
    expect(() => parseServerUrl(url)).toThrow(CallFailure)
    expect(() => parseServerUrl(url)).not.toThrow(/hunter2/)
  })
})
