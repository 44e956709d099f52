import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { request } from '../../api/client.ts'
import { untilRefused } from '../../api/queries.ts'
import type { Difference } from '../../parts/differences.tsx'
import type { TierName } from '../../parts/meaning.tsx'

/** An approval as `/admin/approvals` has it. */
export interface Approval {
  readonly id: string
  readonly state: 'pending' | 'granted' | 'used' | 'rejected' | 'expired' | 'cancelled'
  /** The tool has changed since: it can only be rejected. */
  readonly stale: boolean
  readonly tenant: string
  readonly principal: string
  readonly record: string
  readonly call_id: string
  readonly user_id: string | null
  readonly user_proven: boolean
  readonly attempt: number
  readonly tool: string
  readonly safety_tier: TierName
  readonly args_hash: string
  readonly definition_hash: string
  readonly summary: unknown
  readonly input_bytes: number
  readonly hidden_values: number
  readonly hides_something: boolean
  readonly quorum: number
  readonly required_scope: string
  readonly created_at: string
  readonly expires_at: string
  readonly decided_at: string | null
  readonly decisions: readonly {
    readonly by: string
    readonly action: 'grant' | 'reject' | 'override'
    readonly reason: string | null
    readonly at: string
  }[]
  /** What keeps the person who looks from approving it. */
  readonly obstacle: 'scope' | 'own' | 'approved_before' | null
}

/** The same whole. */
export interface WholeApproval extends Approval {
  readonly description: string | null
  /** Absent for those who only read approvals. */
  readonly input?: unknown
  readonly needed: 'never' | 'conditional' | 'always' | null
  /** Whether a link alone can decide it: not where a credential is needed and people cannot sign in for one. */
  readonly link_may_decide: boolean
  readonly credentials: readonly { readonly kind: 'authorization' | 'secret'; readonly id: string }[]
  /** Of a stale one; empty when only the code of the tool is another. */
  readonly changes: readonly Difference[] | null
}

export interface MadeLink {
  readonly url: string
  readonly approver: string
  readonly power: 'decide' | 'inspect'
  readonly needs_sign_in: boolean
}

const LOOK_AGAIN_MS = 3000
const MAX_LISTED = 100

/** Everything of the inbox: what waits, and what was decided lately. */
export const inboxQuery = queryOptions({
  queryKey: ['approvals', 'list'],
  queryFn: async ({ signal }) => {
    const [waiting, newest] = await Promise.all([
      request<Listed>(`/admin/approvals?state=pending&limit=${MAX_LISTED}`, { signal }),
      request<Listed>(`/admin/approvals?limit=${MAX_LISTED}`, { signal }),
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
    queryFn: async ({ signal }) => (await request<Shown>(pathOf(id), { signal })).approval,
    refetchInterval: untilRefused(LOOK_AGAIN_MS),
  })
}

/** Only what the server answered is shown; whether it counted or not, everything is asked for again. */
export function useDecide(id: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async ({ verb, ...body }: DecisionRequest) =>
      (await request<Shown>(`${pathOf(id)}/${verb}`, { method: 'POST', body })).approval,
    onSuccess: (approval) => client.setQueryData(approvalQuery(id).queryKey, approval),
    onSettled: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ['approvals'] }),
        client.invalidateQueries({ queryKey: ['due'] }),
      ]),
  })
}

interface DecisionRequest {
  readonly verb: 'approve' | 'reject'
  readonly reason?: string
  readonly accept_hidden?: true
}

export function makeLink(id: string, body: Pick<MadeLink, 'approver' | 'power'>): Promise<MadeLink> {
  return request<MadeLink>(`${pathOf(id)}/link`, { method: 'POST', body })
}

interface Listed {
  readonly approvals: readonly Approval[]
}

interface Shown {
  readonly approval: WholeApproval
}

function pathOf(id: string): string {
  return `/admin/approvals/${encodeURIComponent(id)}`
}
