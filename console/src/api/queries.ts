import { type Query, QueryClient } from '@tanstack/react-query'
import { ApiError } from './client.ts'
import { connection } from './connection.ts'

const MAX_RETRIES = 2

/** What the page has been told. Old data stays on screen while it is asked for again. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The browser's "offline" is about the internet, and the server may be on this machine.
      networkMode: 'always',
      staleTime: 5000,
      refetchOnWindowFocus: (query) => !isRefused(query),
      retry: (count, error) => count < MAX_RETRIES && mayPass(error),
    },
    // Nothing is optimistic about writes, and nothing writes twice.
    mutations: { networkMode: 'always', retry: false },
  },
})

/**
 * Asks again and again, until the server refuses: a refusal is written to the journal each time, and passes only when somebody
 * signs in with more.
 */
export function untilRefused(everyMs: number) {
  return (query: Pick<Query, 'state'>): number | false => (isRefused(query) ? false : everyMs)
}

function isRefused({ state: { error } }: Pick<Query, 'state'>): boolean {
  return error instanceof ApiError && error.status === 403
}

/** Connected again, everything on screen is asked for again. */
let wasLost = false
connection.subscribe(() => {
  const { isLost } = connection.get()
  if (wasLost && !isLost) void queries.invalidateQueries()
  wasLost = isLost
})

function mayPass(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status >= 500
}
