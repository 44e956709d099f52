import { z } from 'zod'
import { APPROVAL_OPTIONS, askAboutApprovals, noCollet } from '#cli/approval-access'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { UsageError } from '#cli/usage-error'

const ANSWER = z.object({
  url: z.string(),
  approver: z.string(),
  power: z.string(),
  needs_sign_in: z.boolean(),
})

const ONLY_SHOWS =
  'This link only shows the call: deciding it takes a sign-in, and the server has no oauth.signIn. Decide with collet approvals approve.'

export const approvalsLink = defineCommand({
  name: 'approvals link',
  summary: 'Makes a link with which one approver can decide once, for chat or mail.',
  details: [
    'Whoever has the link decides as the approver it was made for: send it to nobody else. It shows a page; only a button there decides.',
    'Calls that need several approvers, and commands, are decided after a sign-in as NAME (oauth.signIn); without a sign-in the link only shows.',
  ],
  positionals: [{ name: 'ID', help: 'As collet approvals list shows it.' }],
  options: {
    for: { value: 'NAME', required: true, help: 'Whom it is for; journaled as who decided.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals link s0Wc --for alice@example.com'],
  async run(args, context) {
    const [id = ''] = args.positionals
    const approver = args.text('for')
    if (approver === undefined) throw new UsageError('Say whom the link is for: --for NAME.')
    const path = `/${encodeURIComponent(id)}/link`
    const answer = await askAboutApprovals({ method: 'POST', path, body: { approver } }, args, context)
    const made = ANSWER.safeParse(answer).data
    if (made === undefined) throw noCollet(args)
    if (context.json) context.output.json(made)
    else context.output.data(made.url)
    if (made.power !== 'decide') context.output.note(ONLY_SHOWS)
    return EXIT.ok
  },
})
