import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { asksServer } from '#cli/operator-credential'
import { askAboutPins, PIN_LIST, PIN_OPTIONS, type PinRow, withPins } from '#cli/pin-access'
import { renderTable } from '#cli/table'
import { cleanText } from '#core/json'
import { renderPin } from '#server/admin/pins'

const HEADINGS = ['TOOL', 'STATE', 'VERSION', 'WAITING', 'CLASS', 'WHY'] as const

export const pinsList = defineCommand({
  name: 'pins list',
  summary: 'Lists imported tools whose definition waits for a decision; with --all every imported tool.',
  details: [
    'served: called as accepted. suspended: listed as accepted, but calls are refused until you decide.',
    'held: not shown to agents before you accept it. removed: you accepted that it is gone.',
  ],
  positionals: [],
  options: {
    source: { value: 'KEY', help: 'Only tools of this source.' },
    all: { help: 'Also tools for which nothing waits.' },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins list', 'collet pins list --all --source github'],
  async run(args, context) {
    const source = args.text('source')
    const path = source === undefined ? '' : `?source=${encodeURIComponent(source)}`
    const rows = !asksServer(args)
      ? await withPins(args, context, async (desk) => (await desk.list(source)).map(renderPin))
      : (await askAboutPins({ method: 'GET', path, answer: PIN_LIST }, args, context)).pins
    const isAll = args.flag('all')
    print(isAll ? rows : rows.filter(({ waiting }) => waiting !== null), isAll, context)
    return EXIT.ok
  },
})

function print(rows: readonly PinRow[], isAll: boolean, { output, json }: CommandContext): void {
  if (json) output.json(rows)
  else if (rows.length === 0) output.note(isAll ? 'No tool is pinned.' : 'Nothing waits for a decision.')
  else for (const line of renderTable(HEADINGS, rows.map(cellsOf))) output.data(line)
}

function cellsOf({ tool, state, version, waiting }: PinRow): readonly string[] {
  const [reason = '', ...more] = waiting?.reasons ?? []
  const renamed = waiting?.renamed_from == null ? [] : [`was ${waiting.renamed_from}`]
  const why = [
    ...(reason === '' ? [] : [reason]),
    ...renamed,
    ...(more.length > 0 ? [`${more.length} more`] : []),
  ]
  const rejected = waiting?.rejected_by == null ? '' : ' (rejected)'
  return [
    tool,
    state,
    version ?? '-',
    waiting === null ? '-' : `${waiting.kind}${rejected}`,
    waiting?.class ?? '-',
    cleanText(why.join('; ')).slice(0, 100),
  ]
}
