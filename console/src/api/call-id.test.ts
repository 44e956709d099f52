import { afterEach, expect, it, vi } from 'vitest'
import { newCallId } from './call-id.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

afterEach(() => void vi.unstubAllGlobals())

it('returns a new UUID each time, even in a browser without crypto.randomUUID', () => {
  const random = crypto.getRandomValues.bind(crypto)
  vi.stubGlobal('crypto', { getRandomValues: random })
  const ids = Array.from({ length: 1000 }, newCallId)
  for (const id of ids) expect(id).toMatch(UUID)
  expect(new Set(ids).size).toBe(1000)
})
