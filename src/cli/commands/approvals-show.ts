import {
  APPROVAL_OPTIONS,
  askAboutApprovals,
  asksServerAboutApprovals,
  noCollet,
  withApprovals,
} from '#cli/approval-access'
import { approvalLines, rowOfAnswer, rowOfApproval } from '#cli/approval-row'
import { defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'

export const NO_SUCH_APPROVAL = 'There is no such approval. collet approvals list shows them.'

export const approvalsShow = defineCommand({
  name: 'approvals show',
  summary: 'Shows what an approval is about: tool, caller, and all of the input.',
  details: [
    'Only credentials that the tool asks for are hidden, and it says how many. Characters that hide or turn text are spelled out.',
  ],
  positionals: [{ name: 'ID', help: 'As collet approvals list shows it.' }],
  options: APPROVAL_OPTIONS,
  examples: ['collet approvals show s0Wc'],
  async run(args, context) {
    const [id = ''] = args.positionals
    const row = !asksServerAboutApprovals(args, context)
      ? await withApprovals(args, context, async (desk, approver) => {
          const found = await desk.find(approver, id)
          if (found === undefined) throw new CommandFailure(EXIT.usage, NO_SUCH_APPROVAL)
          return rowOfApproval(found, { nowMs: context.clock.nowMs(), isStale: desk.isStale(found) })
        })
      : rowOfAnswer(
          await askAboutApprovals({ method: 'GET', path: `/${encodeURIComponent(id)}` }, args, context),
        )
    if (row === undefined) throw noCollet(args)
    if (context.json) context.output.json(row)
    else for (const line of approvalLines(row)) context.output.data(line)
    return EXIT.ok
  },
})
