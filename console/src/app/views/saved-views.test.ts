import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { removeAllStored } from '../../api/user-storage.ts'
import { isSameView, readViews, removeView, saveView } from './saved-views.ts'

const ANN = { tenant: 'default', id: 'key:ann' }
const BOB = { tenant: 'default', id: 'key:bob' }

function storage(): Storage {
  const kept = new Map<string, string>()
  const methods = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, text: string) => {
      kept.set(name, text)
      Reflect.set(here, name, text)
    },
    removeItem: (name: string) => {
      kept.delete(name)
      Reflect.deleteProperty(here, name)
    },
  }
  const here = Object.create(methods)
  return here
}

describe('saved views', () => {
  beforeEach(() => {
    for (const name of ['sessionStorage', 'localStorage']) vi.stubGlobal(name, storage())
  })
  afterEach(() => void vi.unstubAllGlobals())

  it('are kept for a person and a page, without what is open', () => {
    saveView(ANN, '/calls', { name: 'Failed', search: { q: 'status:error', call: 'x1', tab: 'io' } })
    expect(readViews(ANN, '/calls')).toEqual([{ name: 'Failed', search: { q: 'status:error' } }])
    expect([readViews(BOB, '/calls'), readViews(null, '/calls'), readViews(ANN, '/tools')]).toEqual([
      [],
      [],
      [],
    ])
    expect(isSameView({ q: 'status:error', call: 'x2' }, { q: 'status:error' })).toBe(true)
    expect(isSameView({ q: 'a' }, { q: 'b' })).toBe(false)
  })

  it('are replaced by name, removed, and gone after a sign-out', () => {
    saveView(ANN, '/calls', { name: 'Mine', search: { q: 'a' } })
    saveView(ANN, '/calls', { name: 'Mine', search: { q: 'b' } })
    saveView(ANN, '/calls', { name: 'Other', search: {} })
    expect(removeView(ANN, '/calls', 'Other')).toEqual([{ name: 'Mine', search: { q: 'b' } }])
    removeAllStored()
    expect(readViews(ANN, '/calls')).toEqual([])
  })

  it('ignore what was changed by hand', () => {
    localStorage.setItem(
      'collet-user views /calls default key:ann',
      '[{"name":1},{"name":"x","search":{"q":2}},7]',
    )
    expect(readViews(ANN, '/calls')).toEqual([])
  })
})
