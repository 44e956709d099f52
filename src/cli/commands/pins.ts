import { z } from 'zod'
import {
  actAtStore,
  askAsOperator,
  asksServer,
  nameAtStore,
  STORE_OPTIONS,
  withStore,
} from '#cli/admin-access'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { renderTable } from '#cli/output'
import { isToolError } from '#core/errors'
import { Pins } from '#core/imports/pins'
import { cleanJson, cleanText, type JsonObject } from '#core/json'
import { SILENT_LOGGER } from '#core/runtime'
import { checkDecided, renderPin, renderPinDiff, unknownPin } from '#server/admin/pins'

/** How commands about pins are told where: the store itself, or a server. */
const PIN_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:pins. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

type PinOption = keyof typeof PIN_OPTIONS

const PIN = {
  source: z.string(),
  tool: z.string(),
  native_name: z.string(),
  state: z.string(),
  version: z.string().nullable(),
  hash: z.string().nullable(),
  accepted_by: z.string().nullable(),
  accepted_at: z.string().nullable(),
  waiting: z
    .object({
      kind: z.string(),
      class: z.string(),
      reasons: z.array(z.string()).readonly(),
      hash: z.string(),
      renamed_from: z.string().nullable(),
      seen_at: z.string().nullable(),
      rejected_by: z.string().nullable(),
    })
    .nullable(),
}

/** As `GET /admin/pins` has them. */
const PIN_LIST = z.object({ pins: z.array(z.object(PIN)) })
/** As `GET /admin/pins/TOOL` has it. */
const PIN_DIFF = z.object({
  ...PIN,
  next_version: z.string().nullable(),
  differences: z.array(
    z.object({
      where: z.string(),
      class: z.string(),
      says: z.string(),
      before: z.unknown().optional(),
      after: z.unknown().optional(),
    }),
  ),
})
const PINS_ACCEPTED = z.object({ accepted: z.array(z.string()) })

type PinRow = z.output<typeof PIN_LIST>['pins'][number]
type PinDiffRow = z.output<typeof PIN_DIFF>

/** Works on the store of this machine, also while a server uses it: that one sees the change within a second. */
async function withPins<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (pins: Pins, by: string) => Promise<T>,
): Promise<T> {
  try {
    return await withStore(args, context, async (store) =>
      work(new Pins({ store, clock: context.clock, log: SILENT_LOGGER }), nameAtStore(context)),
    )
  } catch (error) {
    if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** Asks the server that `--url` names, and reads its answer. */
async function askAboutPins<T>(
  request: {
    readonly method: 'GET' | 'POST'
    readonly path: string
    readonly body?: JsonObject
    readonly answer: z.ZodType<T>
  },
  args: Arguments<PinOption>,
  context: CommandContext,
): Promise<T> {
  const { path, answer, ...rest } = request
  const parsed = answer.safeParse(await askAsOperator({ ...rest, path: `/admin/pins${path}` }, args, context))
  if (parsed.success) return parsed.data
  throw new CommandFailure(EXIT.server, 'The server gave no pins. Is it a Collet server of this version?')
}

/** Says yes or no to what waits for a tool, on the store or through a server; the tool as it is after that. */
async function decidePin(
  verb: 'accept' | 'reject',
  tool: string,
  args: Arguments<PinOption | 'hash'>,
  context: CommandContext,
): Promise<PinDiffRow | undefined> {
  const hash = args.text('hash')
  const body = hash === undefined ? {} : { hash }
  if (asksServer(args)) {
    const path = `/${encodeURIComponent(tool)}/${verb}`
    return await askAboutPins({ method: 'POST', path, body, answer: PIN_DIFF }, args, context)
  }
  actAtStore(context)
  return await withPins(args, context, async (pins, by) => {
    checkDecided(await pins[verb](tool, { by, ...body }), tool)
    const after = await pins.diff(tool)
    return after === undefined ? undefined : renderPinDiff(after)
  })
}

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
        ? await withPins(args, context, (pins) =>
            pins.acceptAll(source, { by: actAtStore(context), suspicious }),
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
      ? await withPins(args, context, async (pins) => {
          const found = await pins.diff(tool)
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
      ? await withPins(args, context, async (pins) => (await pins.list(source)).map(renderPin))
      : (await askAboutPins({ method: 'GET', path, answer: PIN_LIST }, args, context)).pins
    const isAll = args.flag('all')
    printInPinsList(isAll ? rows : rows.filter(({ waiting }) => waiting !== null), isAll, context)
    return EXIT.ok
  },
})

function printInPinsList(rows: readonly PinRow[], isAll: boolean, { output, json }: CommandContext): void {
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
