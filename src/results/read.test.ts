import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { pointerSteps } from '#kernel/base/json'
import { cpuMsSince } from '../../test/cpu-time.ts'
import { readPath, valueAt } from './paths.ts'
import { project } from './project.ts'
import { type ReadRequest, type ResultPart, readPart } from './read.ts'
import { readHandle, readQuery } from './recorded.ts'
import { byteLength } from './shape.ts'
import { MAX_WORDS_BYTES, partText, valueText } from './words.ts'

const MAX = 400

describe('paths', () => {
  it('reads JSON Pointer and the dotted form', () => {
    const value = { items: [{ name: 'a' }, { name: 'b', 'x.y': { '/': 1 } }] }
    for (const path of [
      '/items/1/name',
      'items[1].name',
      'items.1.name',
      '$.items[1].name',
      '$["items"][1].name',
    ])
      expect(valueAt(value, path).value).toBe('b')
    expect(valueAt(value, '/items/1/x.y/~1').value).toBe(1)
    expect(valueAt(value, 'items[1]["x.y"]["/"]').value).toBe(1)
    expect(readPath('a..b')).toBeUndefined()
  })

  it('lists the existing members if a path leads to none', () => {
    const value = { items: [1, 2], name: 'x' }
    expect(() => valueAt(value, '/itmes')).toThrow(
      'There is no "itmes" at this path. The result has the members items, name.',
    )
    expect(() => valueAt(value, '/items/2')).toThrow('/items is an array with items 0 to 1.')
    expect(() => valueAt(value, 'name.first')).toThrow('/name is a string.')
    expect(() => valueAt(value, '/__proto__')).toThrow('There is no')
    expect(() => valueAt(value, 'a[')).toThrow('is not a path')
  })

  it('reads a string that contains JSON', () => {
    const value = { content: [{ type: 'text', text: '{"items":[{"id":7}]}' }] }
    expect(valueAt(value, '/content/0/text/items/0/id').value).toBe(7)
    expect(readPart(value, { path: '/content/0/text' }, MAX)).toMatchObject({ unit: 'characters', total: 20 })
    expect(readPart(value, { path: '/content/0/text', format: 'json' }, MAX)).toMatchObject({
      type: 'object',
    })
  })
})

describe('readPart', () => {
  const items = Array.from({ length: 100 }, (_, id) => ({
    ...{ id, state: id % 10 === 0 ? 'open' : 'closed', labels: [`l${id}`], user: { login: `u${id}` } },
  }))

  it('reads items by range, and returns the offset of the next ones', () => {
    const part = readPart({ items }, { path: '/items', offset: 10, limit: 2 }, MAX)
    expect(part).toMatchObject({ value: items.slice(10, 12), offset: 10, count: 2, total: 100, next: 12 })
    expect(partText(part)).toBe('/items: items 10 to 11 of 100. Read on with offset 12.')
  })

  it('filters items by a member and selects members', () => {
    const where = { member: 'state', equals: 'open' }
    const part = readPart({ items }, { path: 'items', where, select: ['id', 'user.login'], limit: 2 }, MAX)
    expect(part.value).toEqual([
      { id: 0, user: { login: 'u0' } },
      { id: 10, user: { login: 'u10' } },
    ])
    expect(part).toMatchObject({ total: 10, indexes: [0, 10], next: 2 })
    const found = (asked: NonNullable<ReadRequest['where']>) =>
      readPart(items, { where: asked }, 10_000).indexes
    expect(found({ member: 'user.login', contains: 'U9' })).toEqual([
      9, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99,
    ])
    expect(found({ member: 'labels', contains: 'l42' })).toEqual([42])
    expect(found({ member: 'id', equals: '42' })).toEqual([42])
    expect(found({ member: 'id', equals: 42 })).toEqual([42])
    expect(found({ member: 'missing', equals: 42 })).toEqual([])
    const closed = [{ at: null }, { at: 'null' }, { at: 1 }]
    expect(readPart(closed, { where: { member: 'at', equals: 'null' } }, MAX).indexes).toEqual([0, 1])
    expect(() => readPart({}, { where: { member: 'a' } }, MAX)).toThrow('filters the items of an array')
  })

  it('reads texts by characters, and the data of blocks by bytes', () => {
    const text = 'é😀'.repeat(1_000)
    const data = Buffer.from(Array.from({ length: 5_000 }, (_, index) => index % 256)).toString('base64')
    const value = { text, block: { type: 'image', mimeType: 'image/png', data } }
    expect(
      pages(value, '/text')
        .map(({ value: part }) => part)
        .join(''),
    ).toBe(text)
    const parts = pages(value, '/block/data')
    expect(parts[0]).toMatchObject({ unit: 'bytes', total: 5_000 })
    const bytes = Buffer.concat(parts.map((part) => Buffer.from(String(part.value), 'base64')))
    expect(bytes.toString('base64')).toBe(data)
  })

  it('reads every part of every value, each within the limit', () => {
    const value = fc.jsonValue({ maxDepth: 5 }).map((json) => {
      const copy: JsonValue = JSON.parse(JSON.stringify(json))
      return { copy, many: Array.from({ length: 60 }, () => copy), long: 'long "text" é\n'.repeat(99) }
    })
    fc.assert(
      fc.property(value, fc.integer({ min: 200, max: 900 }), (whole, maxBytes) => {
        expect(assemble(whole, '', maxBytes)).toEqual(whole)
        const text = pages(whole, '', maxBytes, { format: 'text' }).map((part) => part.value)
        expect(JSON.parse(text.join(''))).toEqual(whole)
      }),
      { numRuns: 60 },
    )
  })

  it('returns a deeply nested value whole if it fits', () => {
    let deep: JsonValue = { end: 'here' }
    for (let depth = 0; depth < 900; depth += 1) deep = { a: deep }
    const part = readPart(deep, {}, 100_000)
    expect(part.leftOut).toEqual([])
    expect(JSON.stringify(part.value)).toBe(JSON.stringify(deep))
  })

  it('reads the path of a filter and the selection once, not for each item', () => {
    const many = Array.from({ length: 200_000 }, (_, id) => ({ id }))
    const start = process.cpuUsage()
    readPart(many, { where: { member: `a.${'b.'.repeat(5_000)}c`, equals: 1 } }, MAX)
    readPart(many, { select: Array.from({ length: 5_000 }, (_, at) => `m${at}`) }, 30_000)
    expect(cpuMsSince(start)).toBeLessThan(1_500)
    expect(() => readPart(many, { where: { member: 'a[', equals: 1 } }, MAX)).toThrow('is not a path')
  })

  it('describes a part in a short text, whatever its names', () => {
    const odd = Object.fromEntries(
      Array.from({ length: 50 }, (_, index) => [`${'n'.repeat(500)}${index}`, 'x'.repeat(900)]),
    )
    const part = readPart({ odd }, {}, 3_000)
    expect(part.leftOut.length).toBeGreaterThan(0)
    expect(byteLength(partText(part))).toBeLessThan(MAX_WORDS_BYTES)
  })
})

describe('project', () => {
  it('keeps the members that the paths name, through arrays, and lists the others', () => {
    const value = { total: 2, items: [{ id: 1, url: 'x', owner: { login: 'a', id: 9 } }], next: null }
    for (const paths of [
      ['total', 'items.id', 'items.owner.login'],
      ['total', 'items[].id', '/items/owner/login'],
      ['total', 'items.*.id', 'items.*.owner.login', 'items.*.owner.login.more'],
    ])
      expect(project(value, paths)).toEqual({
        value: { total: 2, items: [{ id: 1, owner: { login: 'a' } }] },
        leftOut: ['items.url', 'items.owner.id', 'next'],
      })
  })
})

describe('addresses', () => {
  it('contain a call id, the root and a part', () => {
    expect(readHandle('abc')).toMatchObject({ callId: 'abc', root: 'value' })
    expect(readHandle('collet://calls/a%2Fb?path=/items&offset=3')).toMatchObject({
      callId: 'a/b',
      request: { path: '/items', offset: 3 },
    })
    expect(readHandle('collet://calls/a/content/2')).toMatchObject({
      root: 'content',
      request: { path: '/2' },
    })
    for (const bad of [
      'collet://calls/',
      'collet://calls/a/other',
      'collet://calls/a%',
      'collet://calls/a?limit=0',
    ])
      expect(() => readHandle(bad)).toThrow()
    expect(readQuery(new URLSearchParams('where=state%3Dopen&select=id,name'))).toMatchObject({
      where: { member: 'state', equals: 'open' },
      select: ['id', 'name'],
    })
    expect(readQuery(new URLSearchParams('where=a.b~x'))).toMatchObject({
      where: { member: 'a.b', contains: 'x' },
    })
  })
})

describe('valueText', () => {
  it('writes lists of equal objects as TOON if that is shorter', () => {
    const list = [
      { id: 1, name: 'Ada' },
      { id: 2, name: 'Bob' },
    ]
    expect(valueText({ users: list }, 'toon')).toBe('users[2]{id,name}:\n  1,Ada\n  2,Bob')
    expect(valueText(list)).toBe(JSON.stringify(list))
    expect(valueText({ a: { b: { c: [[1], [2, { d: 1 }]] } } }, 'toon')).toMatch(/^\{/)
  })
})

function pages(
  root: JsonValue,
  path: string,
  maxBytes = MAX,
  asked: ReadRequest = {},
): readonly ResultPart[] {
  const parts: ResultPart[] = []
  for (let offset: number | undefined = 0; offset !== undefined && parts.length < 100_000; ) {
    const part: ResultPart = readPart(root, { ...asked, path, offset }, maxBytes)
    expect(byteLength(JSON.stringify(part.value))).toBeLessThanOrEqual(Math.max(maxBytes, 14))
    parts.push(part)
    offset = part.next
  }
  return parts
}

/** Assembles a value from its parts, like a reader that does not have the value. */
function assemble(root: JsonValue, path: string, maxBytes: number): JsonValue {
  const parts = pages(root, path, maxBytes)
  const [first] = parts
  if (first === undefined) throw new Error('no part')
  if (first.type === 'string') return parts.map(({ value }) => value).join('')
  if (first.type === 'array')
    return parts.flatMap(({ value, offset = 0, leftOut }) =>
      Array.isArray(value)
        ? value.map((item, index) =>
            leftOut.length === 0 ? item : assemble(root, `${path}/${offset + index}`, maxBytes),
          )
        : [],
    )
  if (first.type !== 'object') return first.value
  const members: JsonObject = Object.fromEntries(
    parts.flatMap(({ value, leftOut }) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).map(([name, member]) => {
            const below = `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
            return [name, leftOut.length === 0 ? member : assemble(root, below, maxBytes)]
          })
        : [],
    ),
  )
  expect(pointerSteps(path).length).toBeLessThan(50)
  return members
}
