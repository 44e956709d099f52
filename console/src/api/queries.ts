import { type Query, QueryClient } from '@tanstack/react-query'
import { ApiError } from './client.ts'
import { connection } from './connection.ts'

const MAX_RETRIES = 2

/** The cache of answers. Old data stays on screen while it is refreshed. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The browser's `offline` is about the internet, and the server may be on this machine.
      networkMode: 'always',
      staleTime: 5000,
      refetchOnWindowFocus: (query) => !isRefused(query),
      retry: (count, error) => count < MAX_RETRIES && isTransient(error),
    },
    // Writes are neither optimistic nor repeated.
    mutations: { networkMode: 'always', retry: false },
  },
})

/**
 * Refetches at an interval until the server refuses: each refusal is recorded in the journal, and only a sign-in with more scopes
 * changes it.
 */
export function untilRefused(everyMs: number) {
  return (query: Pick<Query, 'state'>): number | false => (isRefused(query) ? false : everyMs)
}

function isRefused({ state: { error } }: Pick<Query, 'state'>): boolean {
  return error instanceof ApiError && error.status === 403
}

/** After a reconnect everything on screen is refetched. */
let wasLost = false
connection.subscribe(() => {
  const { isLost } = connection.get()
  if (wasLost && !isLost) void queries.invalidateQueries()
  wasLost = isLost
})

function isTransient(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status >= 500
}
