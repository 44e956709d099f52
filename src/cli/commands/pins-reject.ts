import { defineCommand } from '#cli/command'
import { decidePin } from '#cli/decide-pin'
import { EXIT } from '#cli/exit-codes'
import { PIN_OPTIONS } from '#cli/pin-access'

export const pinsReject = defineCommand({
  name: 'pins reject',
  summary: 'Says no to what waits for an imported tool. What was accepted stays in force.',
  details: [
    'The no holds for as long as the upstream offers exactly this; another change waits anew.',
    'A tool that is suspended stays so until the upstream goes back, or you accept. Who and when are journaled.',
  ],
  positionals: [{ name: 'TOOL', help: 'As collet pins list shows it.' }],
  options: {
    hash: {
      value: 'H',
      help: 'Only the change with this hash, or one that begins so; see collet pins diff.',
    },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins reject github.issues_create'],
  async run(args, context) {
    const [tool = ''] = args.positionals
    const after = await decidePin('reject', tool, args, context)
    if (context.json) context.output.json(after ?? null)
    else context.output.data(`${tool} stays ${after?.state ?? 'held'}.`)
    return EXIT.ok
  },
})
