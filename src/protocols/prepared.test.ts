import { describe, expect, it, vi } from 'vitest'
import { Catalog, ToolIndex } from '#kernel/tool/catalog'
import { PreparedViews } from './prepared.ts'

const MAX = 8

function emptyCatalog(): Catalog {
  return new Catalog(new ToolIndex([]))
}

describe('PreparedViews', () => {
  it('builds once per catalog and view', () => {
    const views = new PreparedViews(MAX)
    const [one, other] = [emptyCatalog(), emptyCatalog()]
    const encode = vi.fn(() => '[]')
    const first = views.get(one, 'a', encode)
    expect(views.get(one, 'a', encode)).toBe(first)
    expect(views.get(other, 'a', encode)).not.toBe(first)
    expect(views.get(one, 'b', encode)).not.toBe(first)
    expect(encode).toHaveBeenCalledTimes(3)
  })

  it('OTC/C-16: callers choose the view, so the least recently used view is dropped', () => {
    const views = new PreparedViews(MAX)
    const catalog = emptyCatalog()
    const get = (view: string) => views.get(catalog, view, () => '[]')
    const hot = get('hot')
    const cold = get('cold')
    for (let spelling = 0; spelling < 20; spelling += 1) {
      get(`spelling ${spelling}`)
      expect(get('hot')).toBe(hot)
    }
    expect(get('cold')).not.toBe(cold)
  })

  it('reading a kept view drops no other view', () => {
    const views = new PreparedViews(MAX)
    const catalog = emptyCatalog()
    const names = Array.from({ length: MAX }, (_unused, index) => `view ${index}`)
    const first = names.map((name) => views.get(catalog, name, () => '[]'))
    const again = names.toReversed().map((name) => views.get(catalog, name, () => '[]'))
    expect(again.every((prepared, index) => prepared === first.at(-1 - index))).toBe(true)
  })

  it('compresses once', () => {
    const prepared = new PreparedViews(MAX).get(emptyCatalog(), 'a', () => '[]')
    expect(prepared.compressed()).toBe(prepared.compressed())
  })
})
