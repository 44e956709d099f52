import { expect, it } from 'vitest'
import { stepNameOf } from './story.tsx'

it('names steps as their workflow does, and not those that have the name of their tool', () => {
  const named = (id: string) => stepNameOf({ tool: 'Shop.Look@1.0.0', call_id: id }, { call_id: 'order 7' })
  expect(named('order 7/Shop.Look')).toBe(undefined)
  expect(named('order 7/Shop.Look#2')).toBe('#2')
  expect(named('order 7/before/after')).toBe('before/after')
  expect(named('another/before')).toBe(undefined)
})
