import type { Pin, PinDiff } from '#admin-api/pins'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { resolveName } from '#cli/id-prefix'
import { renderTable } from '#cli/output'
import { cleanJson, cleanText } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { createPinRoutes } from '#server/admin/pins'
import { Pins } from '#sources/kit/pins'

/**
 * `collet pins list|diff|accept|reject`: decisions about changed definitions of imported tools (rule 32). They work
 * on the store or through a server. Invariant: `--hash` accepts only the definition that the operator looked at.
 */

const PIN_OPTIONS = adminOptions('admin:pins')
const TOOL = { name: 'TOOL', help: 'As collet pins list shows it, or its beginning.' } as const
const HASH = {
  value: 'H',
  help: 'Only the change whose hash is or begins with H; see collet pins diff.',
} as const

const HEADINGS = ['TOOL', 'STATE', 'VERSION', 'WAITING', 'CLASS', 'WHY'] as const

const pinsList = defineCommand<'source' | 'all' | AdminOption>({
  name: 'pins list',
  summary: 'Lists imported tools whose definition waits for a decision; with --all, every imported tool.',
  details: [
    'served: callable as accepted. suspended: listed as accepted, but calls are refused until you decide.',
    'held: not shown to agents until you accept it. removed: you accepted that it is gone.',
  ],
  positionals: [],
  options: {
    source: { value: 'KEY', help: 'Only tools of this source.' },
    all: { help: 'Also list tools for which nothing waits.' },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins list', 'collet pins list --all --source github'],
  async run(args, context) {
    const source = args.text('source')
    const isAll = args.flag('all')
    const query = new URLSearchParams({
      ...(source === undefined ? {} : { source }),
      ...(isAll ? {} : { waiting: 'true' }),
    })
    const { pins } = await clientOf(args, context).request<{ readonly pins: readonly Pin[] }>(
      { method: 'GET', path: `/admin/pins?${query}` },
      'pins',
    )
    const { output, json } = context
    if (json) output.json(pins)
    else if (pins.length === 0) output.note(isAll ? 'No tool is pinned.' : 'Nothing waits for a decision.')
    else for (const line of renderTable(HEADINGS, pins.map(cellsOf))) output.data(line)
    return EXIT.ok
  },
})

function cellsOf({ tool, state, version, waiting }: Pin): readonly string[] {
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

const MAX_SHOWN = 400

const pinsDiff = defineCommand<AdminOption>({
  name: 'pins diff',
  summary: 'Shows what accepting would change about an imported tool, most serious first.',
  details: ['Invisible characters are shown as \\u escapes. --json prints every value in full.'],
  positionals: [TOOL],
  options: PIN_OPTIONS,
  examples: ['collet pins diff github.issues_create'],
  async run(args, context) {
    const client = clientOf(args, context)
    const path = `/admin/pins/${encodeURIComponent(await resolvePinnedTool(args, client))}`
    const diff = await client.request<PinDiff>({ method: 'GET', path }, 'differences')
    if (context.json) context.output.json(diff)
    else printDiff(diff, context)
    return EXIT.ok
  },
})

const ORDER = ['suspicious', 'breaking', 'widening', 'wording']

function printDiff(diff: PinDiff, { output }: CommandContext): void {
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
  output.note(`To accept exactly this: collet pins accept ${tool} --hash ${waiting.hash.slice(0, 12)}`)
}

function short(value: unknown): string {
  const text = cleanJson(value)
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}

const pinsAccept = defineCommand<'hash' | 'all' | 'source' | 'suspicious' | AdminOption>({
  name: 'pins accept',
  summary: 'Accepts the waiting change of an imported tool: a new tool, a changed definition or a removal.',
  details: [
    'The version rises: major for breaking changes, minor for widening ones, patch for wording. Servers notice within a second.',
    '--all leaves out what is suspicious or was rejected; --suspicious includes what is suspicious. Who accepted, and when, is journaled.',
  ],
  positionals: [{ ...TOOL, optional: true }],
  options: {
    hash: HASH,
    all: { help: 'Accept everything that waits for the source.' },
    source: { value: 'KEY', help: 'The source, with --all.' },
    suspicious: { help: 'With --all: include suspicious changes.' },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins accept github.issues_create', 'collet pins accept --all --source github'],
  async run(args, context) {
    const { output, json } = context
    const [tool] = args.positionals
    const source = args.text('source')
    if (args.flag('all')) {
      if (tool !== undefined || source === undefined) {
        throw new UsageError('Use --all with --source KEY and without a tool.')
      }
      const suspicious = args.flag('suspicious')
      const { accepted } = await clientOf(args, context).request<{ readonly accepted: readonly string[] }>(
        { method: 'POST', path: '/admin/pins/accept', body: { source, suspicious } },
        'accepted',
      )
      if (json) output.json({ accepted })
      else if (accepted.length === 0) output.note('Nothing to accept: collet pins list shows changes.')
      else output.data(`Accepted ${accepted.length}: ${accepted.join(', ')}`)
      return EXIT.ok
    }
    if (tool === undefined) throw new UsageError('Name a tool, or use --all --source KEY.')
    const after = await decidePin('accept', args, context)
    if (json) output.json(after)
    else if (after.state === 'removed') output.data(`${after.tool} is no longer served.`)
    else output.data(`${after.tool} is served at ${after.version ?? '1.0.0'}.`)
    return EXIT.ok
  },
})

const pinsReject = defineCommand<'hash' | AdminOption>({
  name: 'pins reject',
  summary: 'Rejects the waiting change of an imported tool. What was accepted stays in force.',
  details: [
    'The rejection holds as long as the upstream offers exactly this; any other change waits for a new decision.',
    'A suspended tool stays suspended until the upstream reverts the change or you accept it. Who rejected, and when, is journaled.',
  ],
  positionals: [TOOL],
  options: {
    hash: HASH,
    ...PIN_OPTIONS,
  },
  examples: ['collet pins reject github.issues_create'],
  async run(args, context) {
    const after = await decidePin('reject', args, context)
    if (context.json) context.output.json(after)
    else context.output.data(`${after.tool} stays ${after.state}.`)
    return EXIT.ok
  },
})

/** Accepts or rejects the waiting change; returns the tool after the decision. */
async function decidePin(
  verb: 'accept' | 'reject',
  args: Arguments<AdminOption | 'hash'>,
  context: CommandContext,
): Promise<PinDiff> {
  const hash = args.text('hash')
  const body = hash === undefined ? {} : { hash }
  const client = clientOf(args, context)
  const path = `/admin/pins/${encodeURIComponent(await resolvePinnedTool(args, client))}/${verb}`
  return await client.request<PinDiff>({ method: 'POST', path, body }, 'differences')
}

async function resolvePinnedTool(
  { positionals: [typed = ''] }: Arguments<AdminOption>,
  client: AdminClient,
): Promise<string> {
  const known = async () => {
    const { pins } = await client.request<{ readonly pins: readonly Pin[] }>(
      { method: 'GET', path: '/admin/pins' },
      'pins',
    )
    return pins.map(({ tool }) => tool)
  }
  return await resolveName(typed, known, { noun: 'tool', listedBy: 'collet pins list --all' })
}

/** Works on the store of this machine, even while a server uses it; the server sees the change within a second. */
function clientOf(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    onStore: ({ store, access }) =>
      createPinRoutes(new Pins({ store, clock: context.clock, log: SILENT_LOGGER }), access),
  })
}

export const COMMANDS: readonly Command[] = [pinsList, pinsDiff, pinsAccept, pinsReject]
