import { describe, expect, it } from 'vitest'
import { Catalog } from '#core/catalog'
import { PreparedLists } from './prepared-lists.ts'

const HOT = { shape: 'both', schemaId: 'urn:oxp:1.0' } as const

describe('PreparedLists', () => {
  it('builds a list once per catalog and form', () => {
    const lists = new PreparedLists(new Map())
    const [one, other] = [new Catalog([], new Map()), new Catalog([], new Map())]
    expect(lists.get(one, HOT)).toBe(lists.get(one, { ...HOT }))
    expect(lists.get(one, HOT)).not.toBe(lists.get(other, HOT))
    expect(lists.get(one, HOT)).not.toBe(lists.get(one, { ...HOT, schemaId: 'otc://1.0' }))
  })

  it('C-16: callers choose the spelling, so it forgets what was unused for longest', () => {
    const lists = new PreparedLists(new Map())
    const catalog = new Catalog([], new Map())
    const hot = lists.get(catalog, HOT)
    const cold = lists.get(catalog, { shape: 'tools', schemaId: 'cold' })
    for (let spelling = 0; spelling < 20; spelling += 1) {
      lists.get(catalog, { shape: 'tools', schemaId: `spelling ${spelling}` })
      expect(lists.get(catalog, HOT)).toBe(hot)
    }
    expect(lists.get(catalog, { shape: 'tools', schemaId: 'cold' })).not.toBe(cold)
  })

  it('a hit forgets nothing', () => {
    const lists = new PreparedLists(new Map())
    const catalog = new Catalog([], new Map())
    const forms = Array.from({ length: 8 }, (_unused, place) => ({
      shape: 'tools' as const,
      schemaId: `spelling ${place}`,
    }))
    const first = forms.map((form) => lists.get(catalog, form))
    const again = forms.toReversed().map((form) => lists.get(catalog, form))
    expect(again.every((list, place) => list === first.at(-1 - place))).toBe(true)
  })

  it('compresses once', () => {
    const list = new PreparedLists(new Map()).get(new Catalog([], new Map()), HOT)
    expect(list.compressed()).toBe(list.compressed())
  })
})
