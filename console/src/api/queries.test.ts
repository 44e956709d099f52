import { QueryClient } from '@tanstack/react-query'
import { describe, expect, it } from 'vitest'
import { ApiError } from './client.ts'
import { untilRefused } from './queries.ts'

/** The interval after a failure with this status. */
async function againAfter(error: Error): Promise<number | false> {
  const client = new QueryClient()
  const queryKey = ['asked']
  await client.prefetchQuery({ queryKey, queryFn: () => Promise.reject(error), retry: false })
  const query = client.getQueryCache().find({ queryKey })
  if (query === undefined) throw new Error('nothing was asked')
  return untilRefused(5_000)(query)
}

describe('what is asked again and again', () => {
  it('is not once it was refused: each refusal is written down', async () => {
    expect(await againAfter(new ApiError(403, 'This needs a scope.'))).toBe(false)
  })

  it('is after what passes', async () => {
    expect(await againAfter(new ApiError(503, 'The store is away.'))).toBe(5_000)
    expect(await againAfter(new ApiError(0, 'The server does not answer.'))).toBe(5_000)
  })
})
