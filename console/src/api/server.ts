import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { Onboarding, ServerAbout } from '../../../src/admin-api/server.ts'
import { requestJson } from './client.ts'

/*
 * The queries for facts about the server and its onboarding. Used by several pages. Types come from the server's own admin API.
 */

export type { ClientConfig, Onboarding, ServerAbout } from '../../../src/admin-api/server.ts'

/** A protocol and its address. */
export type Endpoint = ServerAbout['protocols'][number]

/** The server, with client configurations for `toolset`, or for all tools if it is empty. */
export function serverQuery(toolset = '') {
  return queryOptions({
    queryKey: ['server', toolset],
    queryFn: ({ signal }) =>
      requestJson<ServerAbout>(
        `/admin/server${toolset === '' ? '' : `?toolset=${encodeURIComponent(toolset)}`}`,
        {
          signal,
        },
      ),
    staleTime: 60_000,
    placeholderData: keepPreviousData,
  })
}

export const onboardingQuery = queryOptions({
  queryKey: ['server', 'onboarding'],
  queryFn: ({ signal }) => requestJson<Onboarding>('/admin/server/onboarding', { signal }),
  staleTime: 0,
})
