import { describe, expect, it } from 'vitest'
import { parseStoreUrl } from '#store/stores'
import { parseConfig } from './load.ts'
import { locateStore } from './to-settings.ts'

function problemOf(text: string): string {
  const url = parseStoreUrl(text)
  return url.kind === 'invalid' ? url.problem : ''
}

describe('parseStoreUrl', () => {
  it('reads a path and the memory store', () => {
    expect(parseStoreUrl('sqlite:.collet/collet.db')).toEqual({
      kind: 'file',
      scheme: 'sqlite',
      path: '.collet/collet.db',
    })
    expect(parseStoreUrl('sqlite:/var/lib/a b.db')).toEqual({
      kind: 'file',
      scheme: 'sqlite',
      path: '/var/lib/a b.db',
    })
    expect(parseStoreUrl('memory:')).toEqual({ kind: 'memory' })
    expect(parseStoreUrl('postgres://u:p@h/db?sslmode=require')).toEqual({ kind: 'server' })
    expect(parseStoreUrl('postgresql:///db')).toEqual({ kind: 'server' })
  })

  it('suggests a valid address', () => {
    expect(problemOf('postgres://u:p@h:x/db')).toContain('"postgres://user:password@host:5432/database"')
    expect(problemOf('postgres:u@h/db')).toContain('"postgres://user:password@host:5432/database"')
    expect(problemOf('postgres://u@h/db/more')).toContain('one database name')
    expect(problemOf('postgres://u:p#q@h/db')).not.toContain('p#q')
    expect(problemOf('postgres://u@h/db?sslmod=require')).toContain('"sslmod" is not a known parameter')
    expect(problemOf('postgres://u@h/db?sslmode=yes')).toContain('sslmode must be one of disable, require')
    expect(problemOf('postgres://u@h/db?sslmode=require&sslmode=disable')).toContain('given twice')
    expect(problemOf('sqlite:')).toContain('needs a path')
    expect(problemOf('sqlite::memory:')).toContain('"memory:"')
    expect(problemOf('sqlite:///x.db')).toContain('without "//"')
    expect(problemOf('./x.db')).toContain('"sqlite:PATH" or "postgres://')
    expect(problemOf('memory:x')).toContain('takes nothing')
  })
})

describe('locateStore', () => {
  it('makes the path absolute and puts the data folder next to it', () => {
    expect(locateStore('sqlite:data/c.db', '/app', 'store')).toEqual({
      store: 'sqlite:/app/data/c.db',
      kind: 'file',
      file: '/app/data/c.db',
      dataFolder: '/app/data',
    })
  })

  it('gives the memory store a data folder for the start token', () => {
    expect(locateStore('memory:', '/app', 'store')).toEqual({
      store: 'memory:',
      kind: 'memory',
      file: undefined,
      dataFolder: '/app/.collet',
    })
  })

  it('keeps an address of PostgreSQL unchanged', () => {
    expect(locateStore('postgres://u:p@h/db', '/app', 'store')).toEqual({
      store: 'postgres://u:p@h/db',
      kind: 'server',
      file: undefined,
      dataFolder: '/app/.collet',
    })
  })

  it('names the setting that has the address', () => {
    expect(() => locateStore('x', '/app', '--store')).toThrow('--store: expected a store address')
  })
})

describe('names in a config', () => {
  const command = { type: 'command', commands: { word_count: { description: 'Counts.', argv: ['wc'] } } }
  it.each([
    ['a command', { sources: { Text: command } }, 'expected lower-case letters, digits and "-"'],
    ['a source', { sources: { 'my-source': command } }, 'a source name has 1 to 64 letters, digits and "_".'],
    [
      'a toolkit',
      { toolkits: { 'my-kit': { description: 'x' } } },
      'a toolkit name has only letters, digits and "_".',
    ],
    ['an empty tool name', { approvals: { perTool: { '': {} } } }, 'must not be empty.'],
  ])('must follow their rule: %s', (_, config, text) => {
    expect(() => parseConfig(config, 'c.ts')).toThrow(text)
  })
})
