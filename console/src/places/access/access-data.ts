import { queryOptions } from '@tanstack/react-query'
import type { ApiKey, CREATE_KEY, LIST_KEYS, NewKey } from '../../../../src/admin-api/keys.ts'
import type { AnswerOf, BodyOf } from '../../../../src/admin-api/operation.ts'
import type {
  CONNECT_PROVIDER,
  LIST_PROVIDERS,
  LIST_SECRETS,
  ProviderLink,
  REMOVE_SECRET,
  SET_SECRET,
} from '../../../../src/admin-api/secrets.ts'
import type { LIST_TOOLSETS } from '../../../../src/admin-api/tools.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import type { ToolListing } from '../../api/tools.ts'

/*
 * The queries for keys, toolsets, secrets and OAuth providers, and the requests that change them. The sections of Access use it.
 * A key is in one answer only: that of the request that creates it.
 */

export type { ApiKey, ConfiguredKey, NewKey } from '../../../../src/admin-api/keys.ts'
export type { Provider, StoredCredential as Credential } from '../../../../src/admin-api/secrets.ts'
export type { Toolset } from '../../../../src/admin-api/tools.ts'

/** The scope for seeing, setting and removing stored credentials. */
export const SECRETS_SCOPE = 'admin:secrets'

const REFETCH_MS = 5000

export const keysQuery = queryOptions({
  queryKey: ['access', 'keys'],
  queryFn: ({ signal }) => requestJson<AnswerOf<typeof LIST_KEYS>>('/admin/keys', { signal }),
})

export const toolsetsQuery = queryOptions({
  queryKey: ['access', 'toolsets'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_TOOLSETS>>('/admin/toolsets', { signal })).toolsets,
})

export function createKey(terms: BodyOf<typeof CREATE_KEY>): Promise<NewKey> {
  return requestJson<NewKey>('/admin/keys', { method: 'POST', body: terms })
}

export function rotateKey({ principal, tenant }: ApiKey, oldEndsInSeconds: number | null): Promise<NewKey> {
  const body = { tenant, ...(oldEndsInSeconds === null ? {} : { old_ends_in_seconds: oldEndsInSeconds }) }
  return requestJson<NewKey>(`/admin/principals/${encodeURIComponent(principal)}/keys`, {
    method: 'POST',
    body,
  })
}

export async function revokeKey({ key_id }: ApiKey): Promise<void> {
  await requestJson(`/admin/keys/${encodeURIComponent(key_id)}`, { method: 'DELETE' })
}

/** Permanently ends a principal and all its keys. */
export async function endPrincipal({ principal, tenant }: ApiKey): Promise<void> {
  const path = `/admin/principals/${encodeURIComponent(principal)}?tenant=${encodeURIComponent(tenant)}`
  await requestJson(path, { method: 'DELETE' })
}

export const secretsQuery = queryOptions({
  queryKey: ['access', 'secrets'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_SECRETS>>('/admin/secrets', { signal })).secrets,
})

export const providersQuery = queryOptions({
  queryKey: ['access', 'providers'],
  queryFn: async ({ signal }) =>
    (await requestJson<AnswerOf<typeof LIST_PROVIDERS>>('/admin/providers', { signal })).providers,
  refetchInterval: untilRefused(REFETCH_MS),
})

/** The requirements of the tools in the catalog. */
export const needsQuery = queryOptions({
  queryKey: ['access', 'needs'],
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

export function setSecret(body: BodyOf<typeof SET_SECRET>): Promise<unknown> {
  return requestJson('/admin/secrets', { method: 'POST', body })
}

export function removeCredential(ref: string): Promise<AnswerOf<typeof REMOVE_SECRET>> {
  return requestJson(`/admin/secrets/${encodeURIComponent(ref)}`, { method: 'DELETE' })
}

export function connectProvider(id: string, body: BodyOf<typeof CONNECT_PROVIDER>): Promise<ProviderLink> {
  return requestJson(`/admin/providers/${encodeURIComponent(id)}/connect`, { method: 'POST', body })
}
