import { afterEach, expect, it, vi } from 'vitest'

afterEach(() => {
  vi.unstubAllGlobals()
  vi.resetModules()
})

it('keeps the choice to turn letter shortcuts off after the page is loaded again', async () => {
  const stored = new Map<string, string>()
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, text: string) => void stored.set(name, text),
  })
  const page = await import('./keyboard.ts')
  expect(page.singleKeys.get()).toBe(true)
  page.setSingleKeys(false)
  vi.resetModules()
  const loadedAgain = await import('./keyboard.ts')
  expect(loadedAgain.singleKeys.get()).toBe(false)
})
