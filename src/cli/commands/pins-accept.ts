import { defineCommand } from '#cli/command'
import { decidePin } from '#cli/decide-pin'
import { EXIT } from '#cli/exit-codes'
import { actAtStore, asksServer } from '#cli/operator-credential'
import { askAboutPins, PIN_OPTIONS, PINS_ACCEPTED, withPins } from '#cli/pin-access'
import { UsageError } from '#cli/usage-error'

export const pinsAccept = defineCommand({
  name: 'pins accept',
  summary: 'Lets in what waits for an imported tool: a new tool, a changed definition, or its removal.',
  details: [
    'The version rises: major for breaking changes, minor for widening ones, patch for words. Servers see it within a second.',
    '--all leaves out what is suspicious and what was rejected; --suspicious takes the suspicious too. Who and when are journaled.',
  ],
  positionals: [{ name: 'TOOL', optional: true, help: 'As collet pins list shows it.' }],
  options: {
    hash: {
      value: 'H',
      help: 'Only the change with this hash, or one that begins so; see collet pins diff.',
    },
    all: { help: 'Everything that waits for the source.' },
    source: { value: 'KEY', help: 'Which source, with --all.' },
    suspicious: { help: 'With --all: suspicious changes too.' },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins accept github.issues_create', 'collet pins accept --all --source github'],
  async run(args, context) {
    const { output, json } = context
    const [tool] = args.positionals
    const source = args.text('source')
    if (args.flag('all')) {
      if (tool !== undefined || source === undefined) {
        throw new UsageError('Write --all with --source KEY and without a tool.')
      }
      const suspicious = args.flag('suspicious')
      const accepted = !asksServer(args)
        ? await withPins(args, context, (desk) =>
            desk.acceptAll(source, { by: actAtStore(context), suspicious }),
          )
        : (
            await askAboutPins(
              { method: 'POST', path: '/accept', body: { source, suspicious }, answer: PINS_ACCEPTED },
              args,
              context,
            )
          ).accepted
      if (json) output.json({ accepted })
      else if (accepted.length === 0) output.note('Nothing to accept: collet pins list shows what waits.')
      else output.data(`Accepted ${accepted.length}: ${accepted.join(', ')}`)
      return EXIT.ok
    }
    if (tool === undefined) throw new UsageError('Say which tool, or write --all --source KEY.')
    const after = await decidePin('accept', tool, args, context)
    if (json) output.json(after ?? null)
    else if (after?.state === 'removed') output.data(`${tool} is no longer served.`)
    else output.data(`${tool} is served at ${after?.version ?? '1.0.0'}.`)
    return EXIT.ok
  },
})
