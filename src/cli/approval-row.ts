import { z } from 'zod'
import type { JsonObject } from '#core/json'
import type { ApprovalRecord } from '#core/ports/approval-store'
import { renderApproval } from '#server/render-approval'
import { cleanText } from './clean-text.ts'

const ROW = z.object({
  id: z.string(),
  state: z.string(),
  tenant: z.string(),
  principal: z.string(),
  record: z.string(),
  call_id: z.string(),
  run_id: z.string(),
  user_id: z.string().nullable(),
  attempt: z.number(),
  tool: z.string(),
  safety_tier: z.string(),
  args_hash: z.string(),
  definition_hash: z.string(),
  input: z.json(),
  quorum: z.number(),
  required_scope: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
  decided_at: z.string().nullable(),
  decisions: z.array(
    z.object({ by: z.string(), action: z.string(), reason: z.string().nullable(), at: z.string() }),
  ),
})

/** A question as operators see it, from the store or from a server: the same members. */
export type ApprovalRow = z.output<typeof ROW>

export const APPROVAL_HEADINGS = ['ID', 'STATE', 'TOOL', 'CALLED BY', 'APPROVERS', 'OPEN UNTIL'] as const

export function approvalCells(row: ApprovalRow): readonly string[] {
  const granted = row.decisions.filter(({ action }) => action !== 'reject').length
  return [row.id, row.state, row.tool, row.principal, `${granted}/${row.quorum}`, row.expires_at]
}

export function rowOfApproval(approval: ApprovalRecord, nowMs: number): ApprovalRow {
  return ROW.parse(renderApproval(approval, nowMs))
}

export function rowsOfApprovals(answer: JsonObject): readonly ApprovalRow[] | undefined {
  return z.object({ approvals: z.array(ROW) }).safeParse(answer).data?.approvals
}

export function rowOfAnswer(answer: JsonObject): ApprovalRow | undefined {
  return z.object({ approval: ROW }).safeParse(answer).data?.approval
}

/** Everything about one, line by line, for a person who decides. */
export function approvalLines(row: ApprovalRow): readonly string[] {
  const lines: readonly (readonly [string, string])[] = [
    ['approval', row.id],
    ['state', row.state],
    ['tool', `${row.tool} (${row.safety_tier})`],
    ['called by', row.user_id === null ? row.principal : `${row.principal} for ${row.user_id}`],
    ['tenant', row.tenant],
    ['call', `${row.call_id} (record ${row.record}, attempt ${row.attempt})`],
    ['run', row.run_id],
    ['input hash', row.args_hash],
    ['definition', row.definition_hash],
    ['needs', `${row.quorum} with the scope ${row.required_scope}`],
    ['asked', row.created_at],
    ['open until', row.expires_at],
    ...row.decisions.map(({ by, action, reason, at }): readonly [string, string] => [
      action,
      `${by} at ${at}${reason === null ? '' : `: ${reason}`}`,
    ]),
  ]
  const shown = lines.map(([label, text]) => `${label.padEnd(12)}${cleanText(text)}`)
  return [...shown, 'input, without secrets:', cleanText(JSON.stringify(row.input))]
}
