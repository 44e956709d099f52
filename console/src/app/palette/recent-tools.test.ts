import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readStored, removeAllStored, store } from '../../api/user-storage.ts'
import { recentTools, rememberTool } from './recent-tools.ts'

const ANN = { tenant: 'default', id: 'key:ann' }
const BOB = { tenant: 'default', id: 'key:bob' }

/** Behaves like the browser's storage: stored items are own members, its functions are not. */
function storage(): object {
  const methods = {
    getItem: (name: string) => Reflect.get(here, name) ?? null,
    setItem: (name: string, text: string) => Reflect.set(here, name, text),
    removeItem: (name: string) => Reflect.deleteProperty(here, name),
  }
  const here: object = Object.create(methods)
  return here
}

describe('data that the browser stores for a person', () => {
  const both = { sessionStorage: storage(), localStorage: storage() }
  beforeEach(() => {
    for (const [name, value] of Object.entries(both)) vi.stubGlobal(name, value)
  })
  afterEach(() => void vi.unstubAllGlobals())

  it('is shown to no other person, and is removed at sign-out', () => {
    localStorage.setItem('collet-theme', 'dark')
    rememberTool(ANN, 'Bank.Pay')
    rememberTool(ANN, 'Door.Ring')
    store('window', 'call x', 'c1')
    expect([recentTools(ANN), recentTools(BOB), recentTools(null)]).toEqual([
      ['Door.Ring', 'Bank.Pay'],
      [],
      [],
    ])
    removeAllStored()
    expect([recentTools(ANN), readStored('window', 'call x')]).toEqual([[], undefined])
    expect([Object.keys(sessionStorage), Object.keys(localStorage)]).toEqual([[], ['collet-theme']])
  })
})
