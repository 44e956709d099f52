import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { RefreshAnswer, TokenBroker } from '#kernel/base/token-broker'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import type { VaultEntry } from '#store/vault'
import { findToken, packToken, TokenRefresher, unpackToken } from './credentials.ts'

const AT = { tenant: 't', principal: 'key:a', user: '', provider: 'p', kind: 'token' } as const

async function stage(
  answers: readonly RefreshAnswer[],
  refreshToken: string | undefined = 'refresh-1',
  expiresAtMs = 1,
) {
  const store = openMemoryStore()
  let nowMs = 1_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const asked: string[] = []
  const meanwhile: { happens: () => unknown } = { happens: () => {} }
  const queue = [...answers]
  const broker: TokenBroker = {
    obstacle: () => undefined,
    revoke: async () => false,
    async refresh(_provider, { refreshToken: sent }) {
      asked.push(sent.reveal())
      await meanwhile.happens()
      await new Promise((resolve) => setImmediate(resolve))
      return queue.shift() ?? { kind: 'unavailable' }
    },
  }
  const value = packToken({
    accessToken: new Secret('access-1'),
    refreshToken: refreshToken === undefined ? undefined : new Secret(refreshToken),
  })
  await store.vault.put({ ...AT, ref: 'r', value, scopes: ['s'], expiresAtMs, by: 'cli:ann', atMs: 0 })
  const refresher = () => new TokenRefresher({ store, clock, log: SILENT_LOGGER, broker })
  const entry = async (): Promise<VaultEntry> => {
    const found = await store.vault.find(AT)
    if (found === undefined) throw new Error('no entry')
    return found
  }
  const pass = (ms: number) => {
    nowMs += ms
  }
  /** The result of looking up a token for these scopes. */
  const find = async (scopes: readonly string[]) => {
    const services = { store, clock, broker, refresher: refresher() }
    const found = await findToken(services, AT, { provider: 'p', scopes })
    return found.ok ? found.value.reveal() : found.problem
  }
  return { store, asked, refresher, entry, pass, find, meanwhile }
}

const tokens = (access: string, refresh?: string, scopes = ['s']): RefreshAnswer => ({
  kind: 'tokens',
  tokens: {
    accessToken: new Secret(access),
    refreshToken: refresh === undefined ? undefined : new Secret(refresh),
    scopes,
    expiresAtMs: 99_999,
  },
})

describe('a refresh', () => {
  it('rule 26: is one request for all waiting calls, in one process and in two', async () => {
    const { refresher, entry, asked } = await stage([tokens('access-2', 'refresh-2')])
    const [one, other] = [refresher(), refresher()]
    const previous = await entry()
    const all = await Promise.all([
      one.refresh(previous),
      one.refresh(previous),
      other.refresh(previous),
      other.refresh(previous),
    ])
    expect(asked).toEqual(['refresh-1'])
    for (const renewed of all)
      expect(
        typeof renewed === 'string'
          ? renewed
          : unpackToken(renewed.value ?? new Secret('')).accessToken.reveal(),
      ).toBe('access-2')
  })

  it('keeps the refresh token if the provider returns no new one', async () => {
    const { refresher, entry } = await stage([tokens('access-2')])
    await refresher().refresh(await entry())
    expect(unpackToken((await entry()).value ?? new Secret('')).refreshToken?.reveal()).toBe('refresh-1')
  })

  it('rule 26: takes over when the lease of a process that died has expired', async () => {
    const { refresher, entry, asked, store, pass } = await stage([tokens('access-2')])
    expect(await store.vault.lease(await entry(), 1_000, 13_000)).toBe(true)
    const waiting = refresher().refresh(await entry())
    await new Promise((resolve) => setImmediate(resolve))
    expect(asked).toEqual([])
    pass(12_001)
    expect(await waiting).toMatchObject({ version: 2 })
    expect(asked).toHaveLength(1)
  })

  it('gives up after a while, and changes nothing', async () => {
    const { refresher, entry, store, pass } = await stage([])
    await store.vault.lease(await entry(), 1_000, 1_000_000)
    const waiting = refresher().refresh(await entry())
    await new Promise((resolve) => setImmediate(resolve))
    pass(60_000)
    expect(await waiting).toBe('unavailable')
    expect((await entry()).isSpent).toBe(false)
  })

  it('OWP-76: without an answer it releases its lease', async () => {
    const { refresher, entry, asked } = await stage([{ kind: 'unavailable' }, tokens('access-2')])
    expect(await refresher().refresh(await entry())).toBe('unavailable')
    expect(await refresher().refresh(await entry())).toMatchObject({ version: 2 })
    expect(asked).toHaveLength(2)
  })

  it('OWP-78: spends the token if it is refused, or if there is no refresh token', async () => {
    const refused = await stage([{ kind: 'refused' }])
    expect(await refused.refresher().refresh(await refused.entry())).toBe('refused')
    expect(await refused.entry()).toMatchObject({ isSpent: true, value: undefined, scopes: ['s'] })
    const plain = await stage([], '')
    const value = packToken({ accessToken: new Secret('a'), refreshToken: undefined })
    await plain.store.vault.put({
      ...AT,
      ref: 'r2',
      value,
      scopes: [],
      expiresAtMs: 1,
      by: 'cli:ann',
      atMs: 0,
    })
    expect(await plain.refresher().refresh(await plain.entry())).toBe('refused')
    expect(plain.asked).toEqual([])
  })

  it('does not change a credential that was set in the meantime', async () => {
    const { refresher, entry, store, meanwhile } = await stage([{ kind: 'refused' }])
    const value = packToken({ accessToken: new Secret('newer'), refreshToken: undefined })
    const newer = { ...AT, ref: 'r2', value, scopes: ['s'], expiresAtMs: undefined, by: 'cli:ann', atMs: 5 }
    meanwhile.happens = () => store.vault.put(newer)
    expect(await refresher().refresh(await entry())).toMatchObject({ ref: 'r2' })
    expect(await entry()).toMatchObject({ ref: 'r2', isSpent: false })
  })
})

describe('a token for a call', () => {
  it('is not used if its renewal returned fewer scopes than the call needs', async () => {
    const { find } = await stage([tokens('narrow', 'refresh-2', [])])
    expect(await find(['s'])).toBe('credential_scope_unsupported')
  })

  it('is renewed before it expires, because the tool needs time to use it', async () => {
    const { find, asked, pass } = await stage([tokens('access-2')], 'refresh-1', 1_000_000)
    pass(1_000_000 - 60_000 - 2_000)
    expect([await find(['s']), asked.length]).toEqual(['access-1', 0])
    pass(2_000)
    expect([await find(['s']), asked.length]).toEqual(['access-2', 1])
  })

  it('that was removed during its renewal is not found', async () => {
    const { find, store, entry, meanwhile } = await stage([tokens('too-late', 'refresh-2')])
    meanwhile.happens = async () => store.vault.remove(await entry(), 'cli:ann', 5)
    expect(await find(['s'])).toBe('connector_auth_expired')
    expect(await store.vault.find(AT)).toBeUndefined()
  })
})
