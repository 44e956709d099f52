import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { asksServer } from '#cli/operator-credential'
import { askAboutPins, PIN_DIFF, PIN_OPTIONS, type PinDiffRow, withPins } from '#cli/pin-access'
import { cleanJson, cleanText } from '#core/json'
import { renderPinDiff, unknownPin } from '#server/admin/pins'

const MOST_SHOWN = 400

export const pinsDiff = defineCommand({
  name: 'pins diff',
  summary: 'Shows what accepting would change about an imported tool, heaviest first.',
  details: ['Invisible characters are shown as \\u escapes. --json has every value whole.'],
  positionals: [{ name: 'TOOL', help: 'As collet pins list shows it.' }],
  options: PIN_OPTIONS,
  examples: ['collet pins diff github.issues_create'],
  async run(args, context) {
    const [tool = ''] = args.positionals
    const path = `/${encodeURIComponent(tool)}`
    const diff = !asksServer(args)
      ? await withPins(args, context, async (desk) => {
          const found = await desk.diff(tool)
          return found === undefined ? undefined : renderPinDiff(found)
        })
      : await askAboutPins({ method: 'GET', path, answer: PIN_DIFF }, args, context)
    if (diff === undefined) throw new CommandFailure(EXIT.usage, unknownPin(tool))
    if (context.json) context.output.json(diff)
    else print(diff, context)
    return EXIT.ok
  },
})

const ORDER = ['suspicious', 'breaking', 'widening', 'wording']

function print(diff: PinDiffRow, { output }: CommandContext): void {
  const { tool, state, version, waiting, next_version: next, differences } = diff
  output.data(`${tool} is ${state}${version === null ? '' : ` at ${version}`}.`)
  if (waiting === null) {
    output.note('Nothing waits for a decision.')
    return
  }
  const renamed =
    waiting.renamed_from === null
      ? ''
      : `, under another name than before: ${cleanText(waiting.renamed_from)}`
  const would = next === null ? 'would take it away' : `would make it ${next}`
  output.data(`A ${waiting.class} ${waiting.kind} waits${renamed}; accepting ${would}.`)
  const sorted = differences.toSorted((left, right) => ORDER.indexOf(left.class) - ORDER.indexOf(right.class))
  for (const { class: found, where, says, before, after } of sorted) {
    output.data(`  ${found.padEnd(10)} ${cleanText(where)}: ${cleanText(says)}`)
    if (before !== undefined) output.data(`             - ${short(before)}`)
    if (after !== undefined) output.data(`             + ${short(after)}`)
  }
  if (waiting.rejected_by !== null) output.note(`${cleanText(waiting.rejected_by)} rejected it.`)
  output.note(`To let in exactly this: collet pins accept ${tool} --hash ${waiting.hash.slice(0, 12)}`)
}

function short(value: unknown): string {
  const text = cleanJson(value)
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}…`
}
