import { describe, expect, it } from 'vitest'
import { HostGuard, type HostGuardOptions } from './host-guard.ts'

const guardFor = (options: Partial<HostGuardOptions> = {}) =>
  new HostGuard({ host: '127.0.0.1', port: 4100, publicUrl: undefined, allowedOrigins: [], ...options })

const passes = (checked: HostGuard, host: string | undefined, origin?: string): boolean => {
  try {
    checked.check(host, origin)
    return true
  } catch {
    return false
  }
}

describe('HostGuard on loopback (rule 28)', () => {
  it.each(['127.0.0.1:4100', 'localhost:4100', 'LocalHost:4100', '[::1]:4100', '127.8.9.1:4100'])(
    'takes Host %s',
    (host) => {
      expect(passes(guardFor(), host)).toBe(true)
    },
  )

  it.each([
    undefined,
    '',
    'evil.test',
    'evil.test:4100',
    'localhost',
    'localhost:4101',
    'localhost.evil.test:4100',
    'localhost.:4100',
    '127.0.0.1.evil.test:4100',
    '127.0.0.1:4100, evil.test',
    '0.0.0.0:4100',
    '10.0.0.1:4100',
    'user@localhost:4100',
    '[::1',
    '[::2]:4100',
    '2130706433:4100',
  ])('refuses Host %s', (host) => {
    expect(passes(guardFor(), host)).toBe(false)
  })

  it('accepts Host without a port on port 80', () => {
    expect(passes(guardFor({ port: 80 }), 'localhost')).toBe(true)
  })

  it.each(['http://127.0.0.1:4100', 'http://localhost:4100', 'http://[::1]:4100'])(
    'accepts its own Origin %s',
    (origin) => {
      expect(passes(guardFor(), '127.0.0.1:4100', origin)).toBe(true)
    },
  )

  it.each([
    'null',
    '',
    'http://evil.test',
    'https://127.0.0.1:4100',
    'http://localhost:3000',
    'http://127.0.0.1:4100/',
  ])('refuses the foreign Origin %j', (origin) => {
    expect(passes(guardFor(), '127.0.0.1:4100', origin)).toBe(false)
  })

  it('accepts only a configured Origin, and returns it for CORS', () => {
    const open = guardFor({ allowedOrigins: ['https://app.test'] })
    expect(passes(open, 'localhost:4100', 'https://app.test')).toBe(true)
    expect(passes(open, 'localhost:4100', 'https://app.test.evil')).toBe(false)
    expect(open.corsOrigin('https://app.test')).toBe('https://app.test')
    expect(open.corsOrigin('http://localhost:4100')).toBeUndefined()
  })
})

describe('HostGuard with a public URL (rule 28)', () => {
  const published = guardFor({ publicUrl: 'https://tools.example.com' })

  it.each(['tools.example.com', 'tools.example.com:443', 'TOOLS.example.com', '127.0.0.1:4100'])(
    'takes Host %s',
    (host) => {
      expect(passes(published, host)).toBe(true)
    },
  )

  it.each(['tools.example.com:80', 'example.com', 'x.tools.example.com'])('refuses Host %s', (host) => {
    expect(passes(published, host)).toBe(false)
  })

  it('derives its own Origin from the public URL', () => {
    expect(passes(published, 'tools.example.com', 'https://tools.example.com')).toBe(true)
    expect(passes(published, 'tools.example.com', 'https://example.com')).toBe(false)
  })
})

describe('HostGuard on every address (rule 28)', () => {
  const wide = guardFor({ host: '0.0.0.0' })

  it.each(['10.1.2.3:4100', '10.1.2.3:8080', '[2001:db8::1]:4100', 'localhost:8080', '127.0.0.1:4100'])(
    'accepts Host %s, which DNS rebinding cannot produce',
    (host) => {
      expect(passes(wide, host)).toBe(true)
    },
  )

  it.each(['tools.example.com', 'evil.test:4100', 'localhost.evil.test'])(
    'needs publicUrl for the name %s',
    (host) => {
      expect(passes(wide, host)).toBe(false)
      expect(() => wide.check(host, undefined)).toThrow(/publicUrl/)
    },
  )

  it('accepts only the Origin that equals its Host', () => {
    expect(passes(wide, '10.1.2.3:4100', 'http://10.1.2.3:4100')).toBe(true)
    expect(passes(wide, '10.1.2.3:4100', 'http://6.6.6.6')).toBe(false)
    expect(passes(wide, '10.1.2.3:4100', 'http://localhost:3000')).toBe(false)
  })
})

describe('HostGuard with a public URL of https', () => {
  const published = guardFor({ publicUrl: 'https://tools.example', host: '0.0.0.0' })

  it.each(['tools.example', 'tools.example:443'])('accepts its own origin for Host %s', (host) => {
    expect(passes(published, host, 'https://tools.example')).toBe(true)
  })

  // An attacker on the network can serve pages under this name over plain http.
  it.each([
    'http://tools.example',
    'http://tools.example:443',
    'https://tools.example:8443',
    'https://tools.example.evil.test',
    'https://evil.test',
    'null',
  ])('refuses Origin %s', (origin) => {
    expect(passes(published, 'tools.example', origin)).toBe(false)
    expect(passes(published, 'tools.example:443', origin)).toBe(false)
  })
})
