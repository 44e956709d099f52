import { describe, expect, it } from 'vitest'
import { BoundedMap } from './bounded-map.ts'

const keysOf = (map: BoundedMap<string, number>, ...names: string[]) => names.filter((name) => map.has(name))

describe('BoundedMap', () => {
  it('drops the entries that were set first', () => {
    const map = new BoundedMap<string, number>({ entries: 2 })
    map.set('a', 1)
    map.set('b', 2)
    map.set('a', 3)
    map.set('c', 4)
    expect(keysOf(map, 'a', 'b', 'c')).toEqual(['a', 'c'])
    expect(map.get('a')).toBe(3)
  })

  it('drops entries until the weights fit, and counts a replaced entry once', () => {
    const map = new BoundedMap<string, number>({ weight: 10 })
    map.set('a', 1, 4)
    map.set('a', 1, 6)
    map.set('b', 2, 4)
    expect(keysOf(map, 'a', 'b')).toEqual(['a', 'b'])
    map.set('c', 3, 7)
    expect(keysOf(map, 'a', 'b', 'c')).toEqual(['c'])
    map.delete('c')
    map.set('d', 4, 10)
    expect(keysOf(map, 'c', 'd')).toEqual(['d'])
  })

  it('can contain `undefined`', () => {
    const map = new BoundedMap<string, number | undefined>({ entries: 1 })
    map.set('a', undefined)
    expect([map.has('a'), map.get('a')]).toEqual([true, undefined])
    map.clear()
    expect(map.has('a')).toBe(false)
  })
})
