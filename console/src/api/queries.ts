import { type Query, QueryClient } from '@tanstack/react-query'
import { ApiError } from './client.ts'
import { connection } from './connection.ts'

/*
 * The cache of the server's answers and the rules for fetching again. Used by several pages. A refused request is not repeated on a
 * timer.
 */

const MAX_RETRIES = 2

/** The cache of answers. Old data stays on screen while it is refreshed. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The browser's `offline` is about the internet, but the server may be on this machine.
      networkMode: 'always',
      staleTime: 5000,
      refetchOnWindowFocus: (query) => !isRefused(query),
      retry: (count, error) => count < MAX_RETRIES && isTransient(error),
    },
    // A write is sent once and shown after the server has answered.
    mutations: { networkMode: 'always', retry: false },
  },
})

/**
 * Refetches at an interval until the server refuses. The journal records each refusal, and only a sign-in with more scopes would
 * change the answer.
 */
export function untilRefused(everyMs: number) {
  return (query: Pick<Query, 'state'>): number | false => (isRefused(query) ? false : everyMs)
}

function isRefused({ state: { error } }: Pick<Query, 'state'>): boolean {
  return error instanceof ApiError && error.status === 403
}

// After a reconnect, everything on screen is refetched.
let wasLost = false
connection.subscribe(() => {
  const { isLost } = connection.get()
  if (wasLost && !isLost) void queries.invalidateQueries()
  wasLost = isLost
})

function isTransient(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status >= 500
}
