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
    /** Whether the page keeps its data. */
    async letIn(principal: Pick<Principal, 'id' | 'tenant'>): Promise<boolean> {
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

describe('who signs in over a page', () => {
  beforeEach(() => {
    vi.stubGlobal('location', { reload })
    vi.stubGlobal('document', { baseURI: 'http://localhost/console/' })
  })
  afterEach(() => void vi.unstubAllGlobals())

  it('goes on with it after only having looked, and after the end of a session of their own', async () => {
    const page = await loadedPage()
    expect(await page.letIn(ANN)).toBe(true)
    page.client.setQueryData(['call contents', 'r1'], 'input of Ann')
    expect(await page.letIn(ANN)).toBe(true)
    expect(page.client.getQueryData(['call contents', 'r1'])).toBe('input of Ann')
  })

  it.each([
    ['another person', BOB],
    ['the same name in another tenant', { ...ANN, tenant: 'acme' }],
  ])('gets a page that holds nothing when it is %s', async (_, other) => {
    const page = await loadedPage()
    await page.letIn(ANN)
    expect(await page.letIn(other)).toBe(false)
    // Until the reload, it is still the page of the previous person.
    expect(page.client.getQueryData<Session>(['session'])?.principal).toMatchObject(ANN)
  })
})
