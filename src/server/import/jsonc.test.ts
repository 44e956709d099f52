import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { parseJsonc, setJsoncMember } from './jsonc.ts'

const COMMENTED = `{
  // how it looks
  "theme": "dark", /* not "light" */
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "a//b", "/*c*/"] }, // mine
  },
}
`

describe('JSON with comments', () => {
  it('is parsed without them, and strings keep text that looks like a comment', () => {
    expect(parseJsonc(COMMENTED)).toEqual({
      theme: 'dark',
      mcpServers: { files: { command: 'npx', args: ['-y', 'a//b', '/*c*/'] } },
    })
    expect(parseJsonc('\uFEFF{"a":[1,2,],}')).toEqual({ a: [1, 2] })
    expect(parseJsonc('{"a": 1 /* open')).toBeUndefined()
  })

  it('keeps a member named __proto__, and rejects very deep nesting', () => {
    expect(Object.keys(parseJsonc('{"__proto__":{"a":1}}') ?? {})).toEqual(['__proto__'])
    expect(parseJsonc('['.repeat(1_000_000))).toBeUndefined()
  })

  it('gets a new member beside the others and is otherwise unchanged', () => {
    const text = setJsoncMember(COMMENTED, ['mcpServers', 'collet'], { url: 'http://x/mcp' }) ?? ''
    expect(text).toBe(
      COMMENTED.replace('"/*c*/"] }', '"/*c*/"] },\n    "collet": {\n      "url": "http://x/mcp"\n    }'),
    )
    expect(parseJsonc(text)).toMatchObject({ mcpServers: { collet: { url: 'http://x/mcp' } } })
  })

  it('has an existing member replaced, and missing parent objects created', () => {
    expect(setJsoncMember('{"a":{"b":1}}', ['a', 'b'], 2)).toBe('{"a":{"b":2}}')
    expect(setJsoncMember('{}', ['a', 'b'], 1)).toBe('{\n  "a": {\n    "b": 1\n  }\n}')
    expect(setJsoncMember('{"a":{ // empty\n}}', ['a', 'b'], 1)).toBe('{"a":{\n    "b": 1 // empty\n}}')
    expect(setJsoncMember('{\r\n\t"a": 1\r\n}', ['b'], {})).toBe('{\r\n\t"a": 1,\r\n\t"b": {}\r\n}')
  })

  it('is not changed if it is invalid or a parent of the member is not an object', () => {
    expect(setJsoncMember('[]', ['a'], 1)).toBeUndefined()
    expect(setJsoncMember('{"a":', ['a'], 1)).toBeUndefined()
    expect(setJsoncMember('{"a":"{}"}', ['a', 'b'], 1)).toBeUndefined()
  })

  it('has exactly one member of any object changed', () => {
    const path = fc.array(fc.constantFrom('a', 'b', 'c"'), { minLength: 1, maxLength: 3 })
    const spaces = fc.constantFrom(0, 2, '\t')
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('a', 'b', 'c"', 'd'), fc.jsonValue()),
        path,
        spaces,
        (object, names, space) => {
          const before = JSON.stringify(object, undefined, space)
          const after = setJsoncMember(before, names, 'set')
          const expected = withMember(JSON.parse(before), names)
          expect(after === undefined ? undefined : parseJsonc(after)).toEqual(expected)
        },
      ),
      { numRuns: 300 },
    )
  })
})

/** The expected result, computed on the parsed value; `undefined` if a parent is not an object. */
function withMember(value: JsonValue | undefined, [name, ...rest]: readonly string[]): JsonValue | undefined {
  if (name === undefined) return 'set'
  if (value !== undefined && !isJsonObject(value)) return undefined
  const inner = withMember(value !== undefined && Object.hasOwn(value, name) ? value[name] : undefined, rest)
  return inner === undefined ? undefined : { ...value, [name]: inner }
}
