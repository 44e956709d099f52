import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import { parseJsonBody } from './read-body.ts'

const parse = (text: string) => parseJsonBody(Buffer.from(text))
const messageOf = (bytes: Buffer): string => {
  try {
    parseJsonBody(bytes)
    return ''
  } catch (error) {
    return error instanceof ToolError && error.code === 'request_invalid' ? error.message : String(error)
  }
}

describe('parseJsonBody', () => {
  it('OTC-66: returns any JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: 'grapheme' }), (value) => {
        const text = JSON.stringify(value)
        expect(JSON.stringify(parse(text))).toBe(text)
      }),
    )
  })

  it('OTC-66: rejects garbage with request_invalid and no other error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          parseJsonBody(Buffer.from(bytes))
        } catch (error) {
          expect(error).toMatchObject({ name: 'ToolError', code: 'request_invalid' })
        }
      }),
    )
  })

  it('OTC-66: rejects any truncated body with request_invalid, without quoting it', () => {
    const text = '{"request":{"secret":"s3cr3t","list":[1,2,{"a":null}]}}'
    for (let length = 1; length < text.length; length += 1) {
      const message = messageOf(Buffer.from(text.slice(0, length)))
      expect(message).toMatch(/not valid JSON/)
      expect(message).not.toMatch(/s3c|secret/)
    }
  })

  it.each([
    ['{"a":{"b":[0,1e400]}}', '/a/b/1'],
    ['-1e400', 'the body'],
    ['{"x/y~z":1e999}', '/x~1y~0z'],
    ['["\\ud800"]', '/0'],
    ['{"a":{"\\udc00k":1}}', '/a'],
  ])('refuses %s and names its place', (text, index) => {
    expect(messageOf(Buffer.from(text))).toContain(`at ${index}, `)
  })

  it('accepts surrogate pairs, escaped or not', () => {
    expect(parse('["\\ud83d\\ude00","😀"]')).toEqual(['😀', '😀'])
  })

  it('keeps __proto__ and constructor as data without effect', () => {
    const value = parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}')
    expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}')
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(Reflect.get({}, 'polluted')).toBeUndefined()
    expect(messageOf(Buffer.from('{"__proto__":{"a":1e400}}'))).toContain('at /__proto__/a, ')
  })

  it('accepts 100 levels and refuses 101 or more', () => {
    expect(parse(`${'['.repeat(100)}${']'.repeat(100)}`)).toBeInstanceOf(Array)
    expect(messageOf(Buffer.from(`${'['.repeat(101)}${']'.repeat(101)}`))).toMatch(/100 levels/)
    expect(messageOf(Buffer.from(`${'{"a":'.repeat(500_000)}1${'}'.repeat(500_000)}`))).toMatch(/100 levels/)
  })

  it('ignores a byte order mark and refuses what is not UTF-8', () => {
    expect(parse('\ufeff{"a":1}')).toEqual({ a: 1 })
    expect(messageOf(Buffer.from([0x22, 0xff, 0x22]))).toMatch(/UTF-8/)
    expect(messageOf(Buffer.from('"é"', 'latin1'))).toMatch(/UTF-8/)
    expect(messageOf(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toMatch(/UTF-8/)
  })

  it('keeps the last of several members with one name', () => {
    expect(parse('{"a":1,"a":2}')).toEqual({ a: 2 })
  })
})
