import { APPROVAL_OPTIONS } from '#cli/approval-access'
import { defineCommand } from '#cli/command'
import { decideApproval } from '#cli/decide-approval'
import { EXIT } from '#cli/exit-codes'

export const approvalsReject = defineCommand({
  name: 'approvals reject',
  summary: 'Says no to a call that waits. It will never run.',
  details: ['The caller is told, with the reason. Who and why are journaled.'],
  positionals: [{ name: 'ID', help: 'As collet approvals list shows it.' }],
  options: {
    reason: { value: 'TEXT', help: 'Why; the caller reads it.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals reject s0Wc --reason "Wrong recipient."'],
  async run(args, context) {
    const [id = ''] = args.positionals
    const reason = args.text('reason')
    const body = reason === undefined ? {} : { reason }
    const row = await decideApproval({ verb: 'reject', id, body }, args, context)
    if (context.json) context.output.json(row)
    else context.output.data(`${id} is rejected.`)
    return EXIT.ok
  },
})
