import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf, BodyOf } from '../../../../src/admin-api/operation.ts'
import type { LIST_PINS, Pin, PinDiff } from '../../../../src/admin-api/pins.ts'
import type {
  CONNECT_PROVIDER,
  LIST_PROVIDERS,
  LIST_SECRETS,
  ProviderLink,
  REMOVE_SECRET,
  SET_SECRET,
} from '../../../../src/admin-api/secrets.ts'
import type { CHANGE_SOURCE, CheckedSource, Source, SourceList } from '../../../../src/admin-api/sources.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import type { ToolListing } from '../../api/tools.ts'

/*
 * The queries for sources, pins, secrets and providers, and the requests that change them. Several pages use it. A decision
 * names the hash of the definition on screen.
 */

export type { Pin } from '../../../../src/admin-api/pins.ts'
export type { Provider, StoredCredential as Credential } from '../../../../src/admin-api/secrets.ts'
export type { Source } from '../../../../src/admin-api/sources.ts'

export type SourceSettings = NonNullable<Source['settings']>
/** An entry of an MCP client on the server's machine that reaches a source directly. */
export type Bypass = SourceList['bypasses'][number]

/** The scope for seeing, setting and removing stored credentials. */
export const SECRETS_SCOPE = 'admin:secrets'

const REFETCH_MS = 5000

const sourcesAnswer = queryOptions({
  queryKey: ['connections', 'sources'],
  queryFn: ({ signal }) => requestJson<SourceList>('/admin/sources', { signal }),
  refetchInterval: untilRefused(REFETCH_MS),
})

export const sourcesQuery = { ...sourcesAnswer, select: ({ sources }: SourceList) => sources }
export const bypassesQuery = { ...sourcesAnswer, select: ({ bypasses }: SourceList) => bypasses }

export const pinsQuery = queryOptions({
  queryKey: ['connections', 'pins'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_PINS>>('/admin/pins?waiting=true', { signal })).pins,
  refetchInterval: untilRefused(REFETCH_MS),
})

export function pinQuery({ tool, waiting }: Pin) {
  return queryOptions({
    queryKey: ['connections', 'pin', tool, waiting?.hash],
    queryFn: ({ signal }) => requestJson<PinDiff>(`/admin/pins/${encodeURIComponent(tool)}`, { signal }),
  })
}

export const secretsQuery = queryOptions({
  queryKey: ['connections', 'secrets'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_SECRETS>>('/admin/secrets', { signal })).secrets,
})

export const providersQuery = queryOptions({
  queryKey: ['connections', 'providers'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_PROVIDERS>>('/admin/providers', { signal })).providers,
  refetchInterval: untilRefused(REFETCH_MS),
})

/** The requirements of the tools in the catalog. */
export const needsQuery = queryOptions({
  queryKey: ['connections', 'needs'],
  queryFn: ({ signal }) => requestJson<Listing>('/admin/tools', { signal }),
})

interface Listing {
  readonly tools: readonly Pick<ToolListing['tools'][number], 'id' | 'needs'>[]
  readonly requirements: readonly { readonly kind: string; readonly id: string }[]
}

/** The requirements of one kind, each with the ids of the tools that need it. */
export function neededBy(
  { tools, requirements }: Listing,
  kind: 'secret' | 'oauth',
): ReadonlyMap<string, readonly string[]> {
  const needed = new Map<string, string[]>()
  for (const { id, needs = [] } of tools)
    for (const position of needs) {
      const need = requirements[position]
      if (need?.kind !== kind) continue
      const known = needed.get(need.id) ?? []
      if (!known.includes(id)) needed.set(need.id, [...known, id])
    }
  return needed
}

export function checkSource(key: string): Promise<CheckedSource> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/check`, { method: 'POST', body: {} })
}

export function refreshSource(key: string): Promise<unknown> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/refresh`, { method: 'POST', body: {} })
}

export function removeSource(key: string): Promise<unknown> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}`, { method: 'DELETE' })
}

export function changeSource(key: string, changes: object): Promise<AnswerOf<typeof CHANGE_SOURCE>> {
  return requestJson(`/admin/sources/${encodeURIComponent(key)}/set`, { method: 'POST', body: { changes } })
}

export function addSource(key: string, options: object): Promise<unknown> {
  return requestJson('/admin/sources', { method: 'POST', body: { key, options } })
}

/** Decides a waiting change. The hash ensures that only the definition on screen is decided. */
export function decidePin({ tool, waiting }: Pin, verb: 'accept' | 'reject'): Promise<unknown> {
  const body = { hash: waiting?.hash }
  return requestJson(`/admin/pins/${encodeURIComponent(tool)}/${verb}`, { method: 'POST', body })
}

/** Accepts the changes in `pins`, all from one source. If a definition has changed in the meantime, none is accepted. */
export function acceptAllOf(source: string, pins: readonly Pin[]): Promise<unknown> {
  const hashes = Object.fromEntries(pins.map(({ tool, waiting }) => [tool, waiting?.hash]))
  return requestJson('/admin/pins/accept', { method: 'POST', body: { source, hashes } })
}

export function setSecret(body: BodyOf<typeof SET_SECRET>): Promise<unknown> {
  return requestJson('/admin/secrets', { method: 'POST', body })
}

export function removeCredential(ref: string): Promise<AnswerOf<typeof REMOVE_SECRET>> {
  return requestJson(`/admin/secrets/${encodeURIComponent(ref)}`, { method: 'DELETE' })
}

export function connectProvider(id: string, body: BodyOf<typeof CONNECT_PROVIDER>): Promise<ProviderLink> {
  return requestJson(`/admin/providers/${encodeURIComponent(id)}/connect`, { method: 'POST', body })
}
