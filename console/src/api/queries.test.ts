import { QueryClient } from '@tanstack/react-query'
import { describe, expect, it } from 'vitest'
import { ApiError } from './client.ts'
import { untilRefused } from './queries.ts'

/** The refetch interval after this error. */
async function intervalAfter(error: Error): Promise<number | false> {
  const client = new QueryClient()
  const queryKey = ['asked']
  await client.prefetchQuery({ queryKey, queryFn: () => Promise.reject(error), retry: false })
  const query = client.getQueryCache().find({ queryKey })
  if (query === undefined) throw new Error('no query')
  return untilRefused(5_000)(query)
}

describe('a query that is refetched at an interval', () => {
  it('stops after a refusal, because the journal records each one', async () => {
    expect(await intervalAfter(new ApiError(403, 'This needs a scope.'))).toBe(false)
  })

  it('continues after transient errors', async () => {
    expect(await intervalAfter(new ApiError(503, 'The store is unavailable.'))).toBe(5_000)
    expect(await intervalAfter(new ApiError(0, 'The server is not responding.'))).toBe(5_000)
  })
})
