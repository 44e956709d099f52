import { describe, expect, it } from 'vitest'
import { BoundedMap } from './bounded-map.ts'

const keysOf = (map: BoundedMap<string, number>, ...names: string[]) => names.filter((name) => map.has(name))

describe('BoundedMap', () => {
  it('forgets what was set longest ago', () => {
    const map = new BoundedMap<string, number>({ entries: 2 })
    map.set('a', 1)
    map.set('b', 2)
    map.set('a', 3)
    map.set('c', 4)
    expect(keysOf(map, 'a', 'b', 'c')).toEqual(['a', 'c'])
    expect(map.get('a')).toBe(3)
  })

  it('forgets until the weights fit, and counts none twice', () => {
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

  it('keeps that there is nothing', () => {
    const map = new BoundedMap<string, number | undefined>({ entries: 1 })
    map.set('a', undefined)
    expect([map.has('a'), map.get('a')]).toEqual([true, undefined])
    map.clear()
    expect(map.has('a')).toBe(false)
  })
})
