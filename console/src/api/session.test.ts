import { QueryClient } from '@tanstack/react-query'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Principal, Session } from './session.ts'

const reload = vi.fn()

/** Each loaded page has its own module. */
async function loadedPage() {
  vi.resetModules()
  const { enter } = await import('./session.ts')
  const client = new QueryClient()
  return {
    client,
    /** Signs a person in, and returns whether the page keeps its data. */
    async signIn(principal: Pick<Principal, 'id' | 'tenant'>): Promise<boolean> {
      reload.mockClear()
      await Promise.race([enter(client, sessionOf(principal)), Promise.resolve()])
      return reload.mock.calls.length === 0
    },
  }
}

function sessionOf({ id, tenant }: Pick<Principal, 'id' | 'tenant'>): Session {
  return {
    server: {
      version: '1',
      url: 'http://localhost',
      command: './collet',
      isOpen: true,
      signIn: { link: null, oidc: null },
    },
    principal: { id, tenant, name: null, scopes: [], isOperator: false },
    csrf: `token of ${id}`,
    expiresAt: null,
  }
}

const ANN = { id: 'key:ann', tenant: 'default' }
const BOB = { id: 'key:bob', tenant: 'default' }

describe('a sign-in on a loaded page', () => {
  beforeEach(() => {
    vi.stubGlobal('location', { reload })
    vi.stubGlobal('document', { baseURI: 'http://localhost/console/' })
  })
  afterEach(() => void vi.unstubAllGlobals())

  it('keeps data loaded without a sign-in, and data of the same person', async () => {
    const page = await loadedPage()
    expect(await page.signIn(ANN)).toBe(true)
    page.client.setQueryData(['call contents', 'r1'], 'input of Ann')
    expect(await page.signIn(ANN)).toBe(true)
    expect(page.client.getQueryData(['call contents', 'r1'])).toBe('input of Ann')
  })

  it.each([
    ['another person', BOB],
    ['the same name in another tenant', { ...ANN, tenant: 'acme' }],
  ])('reloads the page for %s', async (_, other) => {
    const page = await loadedPage()
    await page.signIn(ANN)
    expect(await page.signIn(other)).toBe(false)
    // Until the reload, it is still the page of the previous person.
    expect(page.client.getQueryData<Session>(['session'])?.principal).toMatchObject(ANN)
  })
})
