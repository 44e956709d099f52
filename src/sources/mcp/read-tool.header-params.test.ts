import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { headersFor, readHeaderParams } from './read-tool.ts'

function marked(mark: unknown, type = 'string') {
  return { type: 'object', properties: { a: { type, 'x-mcp-header': mark } } } as Parameters<
    typeof readHeaderParams
  >[0]
}

describe('MCP-48: arguments in headers', () => {
  it('are found through `properties` alone, and the marks are removed', () => {
    const schema = {
      type: 'object',
      properties: {
        a: { type: 'string', 'x-mcp-header': 'Region' },
        b: { type: 'object', properties: { c: { type: 'integer', 'x-mcp-header': 'Deep' } } },
      },
    }
    expect(readHeaderParams(schema)).toEqual({
      ok: true,
      params: [
        { header: 'Region', path: ['a'] },
        { header: 'Deep', path: ['b', 'c'] },
      ],
      schema: {
        type: 'object',
        properties: { a: { type: 'string' }, b: { type: 'object', properties: { c: { type: 'integer' } } } },
      },
    })
  })

  it.each([
    ['an empty name', marked('')],
    ['a name that is not a string', marked(1)],
    ['a space in its name', marked('a b')],
    ['the type number', marked('A', 'number')],
    ['the root as its place', { type: 'object', 'x-mcp-header': 'A' }],
    [
      'list items as its place',
      {
        type: 'object',
        properties: { a: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } },
      },
    ],
    [
      'a name that is already used',
      {
        type: 'object',
        properties: {
          a: { type: 'string', 'x-mcp-header': 'A' },
          b: { type: 'string', 'x-mcp-header': 'a' },
        },
      },
    ],
  ])('a mark with %s makes the tool invalid', (_name, schema) => {
    expect(readHeaderParams(schema)).toMatchObject({ ok: false })
  })

  it('every string can be decoded from its header unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const value = headersFor([{ header: 'A', path: ['a'] }], { a: text })?.['Mcp-Param-A'] ?? ''
        expect(value).toMatch(/^[\t\x20-\x7e]+$/)
        const encoded = /^=\?base64\?(.*)\?=$/.exec(value)
        const back = encoded === null ? value : Buffer.from(encoded[1] ?? '', 'base64').toString('utf8')
        expect(back).toBe(text.toWellFormed())
      }),
    )
  })

  it('absent, null and structured values have no header', () => {
    expect(headersFor([{ header: 'A', path: ['a'] }], {})).toBeUndefined()
    expect(headersFor([{ header: 'A', path: ['a'] }], { a: null })).toBeUndefined()
    expect(headersFor([{ header: 'A', path: ['a', 'toString'] }], { a: {} })).toBeUndefined()
  })
})
