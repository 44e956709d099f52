import { describe, expect, it } from 'vitest'
import { parseStoreUrl } from '#store/stores'
import { locateStore } from './to-settings.ts'

function problemOf(text: string): string {
  const url = parseStoreUrl(text)
  return url.kind === 'invalid' ? url.problem : ''
}

describe('parseStoreUrl', () => {
  it('reads a path and the memory store', () => {
    expect(parseStoreUrl('sqlite:.collet/collet.db')).toEqual({
      kind: 'kept',
      scheme: 'sqlite',
      path: '.collet/collet.db',
    })
    expect(parseStoreUrl('sqlite:/var/lib/a b.db')).toEqual({
      kind: 'kept',
      scheme: 'sqlite',
      path: '/var/lib/a b.db',
    })
    expect(parseStoreUrl('memory:')).toEqual({ kind: 'memory' })
  })

  it('says what to write instead', () => {
    expect(problemOf('postgres://u:p@h/db')).toContain('come in a later release')
    expect(problemOf('sqlite:')).toContain('needs a path')
    expect(problemOf('sqlite::memory:')).toContain('"memory:"')
    expect(problemOf('sqlite:///x.db')).toContain('without "//"')
    expect(problemOf('./x.db')).toContain('"sqlite:PATH" or "memory:"')
    expect(problemOf('memory:x')).toContain('takes nothing')
  })
})

describe('locateStore', () => {
  it('makes the path absolute and puts the data folder next to it', () => {
    expect(locateStore('sqlite:data/c.db', '/app', 'store')).toEqual({
      store: 'sqlite:/app/data/c.db',
      file: '/app/data/c.db',
      dataFolder: '/app/data',
    })
  })

  it('gives the memory store a data folder for the start token', () => {
    expect(locateStore('memory:', '/app', 'store')).toEqual({
      store: 'memory:',
      file: undefined,
      dataFolder: '/app/.collet',
    })
  })

  it('names the setting it came from', () => {
    expect(() => locateStore('x', '/app', '--store')).toThrow('--store: expected a store address')
  })
})
