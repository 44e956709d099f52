import { queryOptions } from '@tanstack/react-query'
import { request } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import type { Difference } from '../../parts/differences.tsx'

/** A source as `/admin/sources` has it. */
export interface Source {
  readonly key: string
  readonly type: string
  readonly kind: string
  readonly state: 'starting' | 'ready' | 'degraded' | 'down'
  readonly reason: string | null
  readonly since: string
  readonly tools: number
  readonly offered: number | null
  readonly waiting: number
  readonly read_at: string | null
  readonly next_read_at: string | null
  readonly warnings: readonly string[]
  readonly left_out: readonly { readonly tool: string; readonly problem: string; readonly fix: string }[]
  readonly target?: string | null
  /** The config has it, and has to be changed to change it. */
  readonly configured?: boolean
  readonly settings?: SourceSettings
}

export interface SourceSettings {
  readonly trust?: 'nothing' | 'annotations'
  readonly connectTimeoutMs?: number
  readonly include: readonly string[] | null
  readonly exclude: readonly string[]
  readonly approval: 'never' | 'conditional' | 'always' | null
  readonly tier: 'pure' | 'read' | 'write' | 'exec' | null
}

/** Each step to a source, as it went just now. */
interface CheckedSource {
  readonly key: string
  readonly ok: boolean
  readonly steps: readonly {
    readonly step: string
    readonly state: 'done' | 'failed' | 'not_reached'
    readonly says: string
    readonly took_ms: number | null
  }[]
  readonly advice: string
}

/** A definition that waits for somebody. */
export interface Pin {
  readonly source: string
  readonly tool: string
  readonly state: 'served' | 'suspended' | 'held' | 'removed'
  readonly version: string | null
  readonly waiting: {
    readonly kind: 'addition' | 'change' | 'removal'
    readonly class: string
    readonly hash: string
    readonly seen_at: string
    readonly rejected_by: string | null
  } | null
}

interface PinDiff extends Pin {
  readonly next_version: string | null
  readonly differences: readonly Difference[]
}

export interface Credential {
  readonly ref: string
  readonly kind: 'secret' | 'token'
  readonly name: string
  readonly tenant: string
  readonly principal: string
  readonly user: string | null
  readonly scopes: readonly string[]
  readonly state: 'live' | 'spent'
  readonly updated_at: string
}

export interface Provider {
  readonly id: string
  readonly at: string
  readonly scopes: readonly string[]
  readonly tools: number
  readonly can_connect: boolean
  readonly connections: readonly Omit<Credential, 'kind' | 'name'>[]
}

/** What it takes to see, set and forget what is in the vault. */
export const SECRETS_SCOPE = 'admin:secrets'

const LOOK_AGAIN_MS = 5000

/** An entry of an MCP client on the server's machine that reaches a source directly. */
export interface Around {
  readonly client: string
  readonly title: string
  readonly file: string
  readonly name: string
  readonly source: string
  /** Names of credentials that stand in the file in clear text. */
  readonly clear: readonly string[]
}

const sourcesAnswer = queryOptions({
  queryKey: ['connections', 'sources'],
  queryFn: ({ signal }) => request<SourcesAnswer>('/admin/sources', { signal }),
  refetchInterval: untilRefused(LOOK_AGAIN_MS),
})

export const sourcesQuery = { ...sourcesAnswer, select: ({ sources }: SourcesAnswer) => sources }
export const aroundQuery = { ...sourcesAnswer, select: ({ around }: SourcesAnswer) => around }

interface SourcesAnswer {
  readonly sources: readonly Source[]
  readonly around: readonly Around[]
}

export const pinsQuery = queryOptions({
  queryKey: ['connections', 'pins'],
  queryFn: async ({ signal }) =>
    (await request<{ readonly pins: readonly Pin[] }>('/admin/pins?waiting=true', { signal })).pins,
  refetchInterval: untilRefused(LOOK_AGAIN_MS),
})

export function pinQuery({ tool, waiting }: Pin) {
  return queryOptions({
    queryKey: ['connections', 'pin', tool, waiting?.hash],
    queryFn: ({ signal }) => request<PinDiff>(`/admin/pins/${encodeURIComponent(tool)}`, { signal }),
  })
}

export const secretsQuery = queryOptions({
  queryKey: ['connections', 'secrets'],
  queryFn: async ({ signal }) =>
    (await request<{ readonly secrets: readonly Credential[] }>('/admin/secrets', { signal })).secrets,
})

export const providersQuery = queryOptions({
  queryKey: ['connections', 'providers'],
  queryFn: async ({ signal }) =>
    (await request<{ readonly providers: readonly Provider[] }>('/admin/providers', { signal })).providers,
  refetchInterval: untilRefused(LOOK_AGAIN_MS),
})

/** What tools of the catalog need besides their input, and which of them. */
export const needsQuery = queryOptions({
  queryKey: ['connections', 'needs'],
  queryFn: ({ signal }) => request<Listing>('/admin/tools', { signal }),
})

interface Listing {
  readonly tools: readonly { readonly id: string; readonly needs?: readonly number[] }[]
  readonly requirements: readonly { readonly kind: string; readonly id: string }[]
}

/** The names of what tools need of one kind, each with the tools that need it. */
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
  return request(`/admin/sources/${encodeURIComponent(key)}/check`, { method: 'POST', body: {} })
}

export function refreshSource(key: string): Promise<unknown> {
  return request(`/admin/sources/${encodeURIComponent(key)}/refresh`, { method: 'POST', body: {} })
}

export function removeSource(key: string): Promise<unknown> {
  return request(`/admin/sources/${encodeURIComponent(key)}`, { method: 'DELETE' })
}

export function changeSource(
  key: string,
  changes: object,
): Promise<{ readonly warnings: readonly string[] }> {
  return request(`/admin/sources/${encodeURIComponent(key)}/set`, { method: 'POST', body: { changes } })
}

export function addSource(key: string, options: object): Promise<unknown> {
  return request('/admin/sources', { method: 'POST', body: { key, options } })
}

/** `hash`: what was looked at, so that nothing else is decided. */
export function decidePin({ tool, waiting }: Pin, verb: 'accept' | 'reject'): Promise<unknown> {
  const body = { hash: waiting?.hash }
  return request(`/admin/pins/${encodeURIComponent(tool)}/${verb}`, { method: 'POST', body })
}

/** Accepts the changes in `pins` of one source, and none of them if one has changed since. */
export function acceptAllOf(source: string, pins: readonly Pin[]): Promise<unknown> {
  const hashes = Object.fromEntries(pins.map(({ tool, waiting }) => [tool, waiting?.hash]))
  return request('/admin/pins/accept', { method: 'POST', body: { source, hashes } })
}

export function setSecret(body: object): Promise<unknown> {
  return request('/admin/secrets', { method: 'POST', body })
}

export function forget(ref: string): Promise<{ readonly revoked: boolean }> {
  return request(`/admin/secrets/${encodeURIComponent(ref)}`, { method: 'DELETE' })
}

export function connectProvider(
  id: string,
  body: object,
): Promise<{ readonly url: string; readonly principal: string }> {
  return request(`/admin/providers/${encodeURIComponent(id)}/connect`, { method: 'POST', body })
}
