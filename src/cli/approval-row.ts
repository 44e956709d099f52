import { z } from 'zod'
import { cleanJson, cleanText, type JsonObject } from '#core/json'
import type { ApprovalRecord } from '#core/ports/approval-store'
import { type ApprovalView, renderApproval } from '#server/admin/approvals'

const ROW = z.object({
  id: z.string(),
  state: z.string(),
  tenant: z.string(),
  principal: z.string(),
  record: z.string(),
  call_id: z.string(),
  run_id: z.string(),
  user_id: z.string().nullable(),
  /** A server of an earlier version does not say, so it is not. */
  user_proven: z.boolean().default(false),
  attempt: z.number(),
  tool: z.string(),
  safety_tier: z.string(),
  args_hash: z.string(),
  definition_hash: z.string(),
  stale: z.boolean(),
  summary: z.json(),
  /** Not in lists. */
  input: z.json().optional(),
  input_bytes: z.number(),
  hidden_values: z.number(),
  hides_something: z.boolean(),
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
  return [row.id, stateOf(row), row.tool, row.principal, `${granted}/${row.quorum}`, row.expires_at]
}

/** A question whose tool is another one by now can only be rejected. */
function stateOf({ state, stale }: ApprovalRow): string {
  return stale ? 'stale' : state
}

export function rowOfApproval(approval: ApprovalRecord, view: ApprovalView): ApprovalRow {
  return ROW.parse(renderApproval(approval, view))
}

export function rowsOfApprovals(answer: JsonObject): readonly ApprovalRow[] | undefined {
  return z.object({ approvals: z.array(ROW) }).safeParse(answer).data?.approvals
}

export function rowOfAnswer(answer: JsonObject): ApprovalRow | undefined {
  return z.object({ approval: ROW }).safeParse(answer).data?.approval
}

const STALE = 'its definition changed since it was asked; it can only be rejected'

/** A yes to what cannot be seen needs a word of its own. */
function hiddenNote({ hidden_values: hidden, hides_something: hides }: ApprovalRow): string {
  if (!hides) return ''
  const what = hidden === 0 ? 'not all of it is kept' : `${hidden} of its values hidden as credentials`
  return `, ${what}: approving it takes --accept-hidden`
}

/** The mark stands before the id: callers choose ids, and how long they are. */
function userLines({
  user_id: id,
  user_proven: isProven,
}: ApprovalRow): readonly (readonly [string, string])[] {
  return id === null ? [] : [['for user', isProven ? id : `(claimed, not proven) ${id}`]]
}

/** Everything about one, line by line, for a person who decides. */
export function approvalLines(row: ApprovalRow): readonly string[] {
  const lines: readonly (readonly [string, string])[] = [
    ['approval', row.id],
    ['state', row.stale ? `stale: ${STALE}` : row.state],
    ['tool', `${row.tool} (${row.safety_tier})`],
    ['called by', row.principal],
    ...userLines(row),
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
  const [summary, whole] = [cleanJson(row.summary, 2), cleanJson(row.input ?? null, 2)]
  return [
    ...shown,
    ...(summary === whole ? [] : ['summary:', summary]),
    `the whole input (${row.input_bytes} bytes)${hiddenNote(row)}:`,
    whole,
  ]
}
