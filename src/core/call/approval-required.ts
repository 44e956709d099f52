import { fault, type ToolError } from '#core/errors'
import type { ApprovalRecord } from '#core/ports/approval-store'

/** What a caller of a parked call is told: where to look, and to come again with the same call (rule 6). */
export function approvalRequired(
  { id, tool }: Pick<ApprovalRecord, 'id' | 'tool'>,
  publicUrl: string,
): ToolError {
  const url = `${publicUrl}/approvals/${id}`
  return fault(
    'approval_required',
    `${tool} needs an approval before it may run. Nothing was run. Repeat the call with the same call id once it is approved.`,
    {
      missing: { approval: { id, url, checkUrl: `${url}/status` } },
      developerMessage:
        'An operator decides with collet approvals approve; collet approvals list shows what waits.',
    },
  )
}
