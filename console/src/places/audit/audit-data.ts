import { queryOptions } from '@tanstack/react-query'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { READ_AUDIT, Refusal } from '../../../../src/admin-api/server.ts'
import { requestJson } from '../../api/client.ts'

/*
 * The query for denied requests. Used by `denied-requests.tsx`. The newest are first.
 */

export type { Refusal } from '../../../../src/admin-api/server.ts'

const PAGE_SIZE = 1_000
const MAX_PAGES = 20
const MAX_SHOWN = 100

/** The newest refusals. The log is read from its beginning, so the end of a very long log may be missing (`isWhole` is false). */
export const refusalsQuery = queryOptions({
  queryKey: ['audit', 'denied requests'],
  async queryFn({ signal }) {
    let newest: readonly Refusal[] = []
    let after = 0
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { events, next } = await requestJson<AnswerOf<typeof READ_AUDIT>>(
        `/admin/audit?after=${after}&limit=${PAGE_SIZE}`,
        { signal },
      )
      newest = [...newest, ...events].slice(-MAX_SHOWN)
      if (next <= after) return { refusals: newest.toReversed(), isWhole: true }
      after = next
    }
    return { refusals: newest.toReversed(), isWhole: false }
  },
  staleTime: 30_000,
})
