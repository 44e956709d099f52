import type { JsonObject } from '#core/json'
import { decided, readDecision } from '#server/admin/approvals'
import { askAboutApprovals, asksServerAboutApprovals, noCollet, withApprovals } from './approval-access.ts'
import { type ApprovalRow, rowOfAnswer, rowOfApproval } from './approval-row.ts'
import type { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { actAtStore } from './operator-credential.ts'

export interface CliDecision {
  readonly verb: 'approve' | 'reject'
  readonly id: string
  readonly body: JsonObject
}

/** Says yes or no, on the store or through a server; the question as it stands after that. */
export async function decideApproval(
  { verb, id, body }: CliDecision,
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<ApprovalRow> {
  if (!asksServerAboutApprovals(args, context)) {
    actAtStore(context)
    return await withApprovals(args, context, async (desk, approver) => {
      const decision = readDecision(verb, body)
      const result = await desk.decide(approver, await desk.find(approver, id), decision)
      const after = decided(result)
      return rowOfApproval(after, { nowMs: context.clock.nowMs(), isStale: desk.isStale(after) })
    })
  }
  const path = `/${encodeURIComponent(id)}/${verb}`
  const row = rowOfAnswer(await askAboutApprovals({ method: 'POST', path, body }, args, context))
  if (row === undefined) throw noCollet(args)
  return row
}
