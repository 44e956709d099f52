import { APPROVAL_OPTIONS } from '#cli/approval-access'
import { defineCommand } from '#cli/command'
import { decideApproval } from '#cli/decide-approval'
import { EXIT } from '#cli/exit-codes'

export const approvalsApprove = defineCommand({
  name: 'approvals approve',
  summary: 'Says yes to a call that waits. It runs when its caller repeats it.',
  details: [
    'A yes is for exactly this call: caller, user, tool definition, input and credentials. It can be used once.',
    'Decides in the store itself, also while a server uses it. With --url it asks the server. Who and why are journaled.',
  ],
  positionals: [{ name: 'ID', help: 'As collet approvals list shows it.' }],
  options: {
    reason: { value: 'TEXT', help: 'Why; it goes into the journal.' },
    'accept-hidden': { help: 'Say yes although some of the input is hidden; collet approvals show says so.' },
    override: { help: 'Override the quorum, where the config allows it; needs --reason.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals approve s0Wc --reason "Asked the customer."'],
  async run(args, context) {
    const [id = ''] = args.positionals
    const reason = args.text('reason')
    const body = {
      ...(reason === undefined ? {} : { reason }),
      ...(args.flag('accept-hidden') ? { acceptHidden: true } : {}),
      ...(args.flag('override') ? { override: true } : {}),
    }
    const row = await decideApproval({ verb: 'approve', id, body }, args, context)
    const { state, quorum, decisions } = row
    if (context.json) context.output.json(row)
    else if (state === 'pending') {
      context.output.data(`${id} has ${decisions.length} of ${quorum} approvals.`)
    } else context.output.data(`${id} is approved. It runs when its caller repeats the call.`)
    return EXIT.ok
  },
})
