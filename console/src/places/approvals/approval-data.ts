import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import type {
  APPROVE_CALL,
  ApprovalLink,
  LIST_APPROVALS,
  MAKE_APPROVAL_LINK,
  SHOW_APPROVAL,
} from '../../../../src/admin-api/approvals.ts'
import type { AnswerOf, BodyOf } from '../../../../src/admin-api/operation.ts'
import { request } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'

export type {
  Approval as WholeApproval,
  ApprovalLink as MadeLink,
  ListedApproval as Approval,
} from '../../../../src/admin-api/approvals.ts'

const LOOK_AGAIN_MS = 3000
const MAX_LISTED = 100

/** Everything of the inbox: what waits, and what was decided lately. */
export const inboxQuery = queryOptions({
  queryKey: ['approvals', 'list'],
  queryFn: async ({ signal }) => {
    const [waiting, newest] = await Promise.all([
      request<AnswerOf<typeof LIST_APPROVALS>>(`/admin/approvals?state=pending&limit=${MAX_LISTED}`, {
        signal,
      }),
      request<AnswerOf<typeof LIST_APPROVALS>>(`/admin/approvals?limit=${MAX_LISTED}`, { signal }),
    ])
    return {
      // One whose time is over is said to be so before that is written down.
      waiting: waiting.approvals.filter(({ state }) => state === 'pending'),
      decided: newest.approvals.filter(({ state }) => state !== 'pending'),
    }
  },
  refetchInterval: untilRefused(LOOK_AGAIN_MS),
})

export function approvalQuery(id: string) {
  return queryOptions({
    queryKey: ['approvals', 'one', id],
    queryFn: async ({ signal }) =>
      (await request<AnswerOf<typeof SHOW_APPROVAL>>(pathOf(id), { signal })).approval,
    refetchInterval: untilRefused(LOOK_AGAIN_MS),
  })
}

/** Only what the server answered is shown; whether it counted or not, everything is asked for again. */
export function useDecide(id: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async ({
      verb,
      ...body
    }: { readonly verb: 'approve' | 'reject' } & BodyOf<typeof APPROVE_CALL>) =>
      (await request<AnswerOf<typeof SHOW_APPROVAL>>(`${pathOf(id)}/${verb}`, { method: 'POST', body }))
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
  return request<ApprovalLink>(`${pathOf(id)}/link`, { method: 'POST', body })
}

function pathOf(id: string): string {
  return `/admin/approvals/${encodeURIComponent(id)}`
}
