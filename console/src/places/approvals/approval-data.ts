import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import type {
  APPROVE_CALL,
  ApprovalLink,
  LIST_APPROVALS,
  MAKE_APPROVAL_LINK,
  SHOW_APPROVAL,
} from '../../../../src/admin-api/approvals.ts'
import type { AnswerOf, BodyOf } from '../../../../src/admin-api/operation.ts'
import { requestJson } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'

/*
 * The queries for approvals, and the requests that decide them. Used by several pages. After a decision all approvals are fetched
 * again.
 */

export type {
  Approval as WholeApproval,
  ApprovalLink as MadeLink,
  ListedApproval as Approval,
} from '../../../../src/admin-api/approvals.ts'

const REFETCH_MS = 3000
const MAX_LISTED = 100

/** The approvals in the inbox: those that wait, and the newest that were decided. */
export const inboxQuery = queryOptions({
  queryKey: ['approvals', 'list'],
  queryFn: async ({ signal }) => {
    const [waiting, newest] = await Promise.all([
      requestJson<AnswerOf<typeof LIST_APPROVALS>>(`/admin/approvals?state=pending&limit=${MAX_LISTED}`, {
        signal,
      }),
      requestJson<AnswerOf<typeof LIST_APPROVALS>>(`/admin/approvals?limit=${MAX_LISTED}`, { signal }),
    ])
    return {
      // The server reports an approval as expired even before it has recorded the expiry.
      waiting: waiting.approvals.filter(({ state }) => state === 'pending'),
      decided: newest.approvals.filter(({ state }) => state !== 'pending'),
    }
  },
  refetchInterval: untilRefused(REFETCH_MS),
})

export function approvalQuery(id: string) {
  return queryOptions({
    queryKey: ['approvals', 'one', id],
    queryFn: async ({ signal }) =>
      (await requestJson<AnswerOf<typeof SHOW_APPROVAL>>(pathOf(id), { signal })).approval,
    refetchInterval: untilRefused(REFETCH_MS),
  })
}

/** Sends a decision. The page shows the server's answer and refetches all approvals, even after a failure. */
export function useDecide(id: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async ({
      verb,
      ...body
    }: { readonly verb: 'approve' | 'reject' } & BodyOf<typeof APPROVE_CALL>) =>
      (await requestJson<AnswerOf<typeof SHOW_APPROVAL>>(`${pathOf(id)}/${verb}`, { method: 'POST', body }))
        .approval,
    onSuccess: (approval) => client.setQueryData(approvalQuery(id).queryKey, approval),
    onSettled: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ['approvals'] }),
        client.invalidateQueries({ queryKey: ['waiting counts'] }),
      ]),
  })
}

export function makeLink(id: string, body: BodyOf<typeof MAKE_APPROVAL_LINK>): Promise<ApprovalLink> {
  return requestJson<ApprovalLink>(`${pathOf(id)}/link`, { method: 'POST', body })
}

function pathOf(id: string): string {
  return `/admin/approvals/${encodeURIComponent(id)}`
}
