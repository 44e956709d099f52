import {
  ACCEPT_PIN,
  ACCEPT_PINS,
  LIST_PINS,
  type Pin,
  type PinDiff,
  REJECT_PIN,
  SHOW_PIN,
} from '#admin-api/pins'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type Command, type CommandContext, UsageError } from '#cli/command'
import { listCommand, operatorCommand } from '#cli/operator-command'
import type { Output } from '#cli/output'
import { cleanJson, cleanText, defined } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { createPinRoutes } from '#server/admin/pins'
import { Pins } from '#sources/kit/pins'

/**
 * `collet pins list|diff|accept|reject`: decisions about changed definitions of imported tools (rule 32). They work
 * on the store or through a server. Invariant: `--hash` accepts only the definition that the operator looked at.
 */

const PIN_OPTIONS = adminOptions('admin:pins')
const TOOL = {
  id: 'tool',
  name: 'TOOL',
  help: 'The name that collet pins list shows, or its first characters.',
} as const
const HASH = {
  value: 'H',
  help: 'Only the change whose hash is or begins with H; see collet pins diff.',
} as const

const pinsList = listCommand({
  name: 'pins list',
  summary: 'Lists imported tools whose definition waits for a decision; with --all, every imported tool.',
  details: [
    'served: callable as accepted. suspended: listed as accepted, but calls are refused until you decide.',
    'held: not shown to agents until you accept it. removed: you accepted the removal.',
  ],
  options: {
    source: { value: 'KEY', help: 'Only tools of this source.' },
    all: { help: 'Also list tools without a waiting change.' },
    ...PIN_OPTIONS,
  },
  examples: ['collet pins list', 'collet pins list --all --source github'],
  client: pinClient,
  operation: LIST_PINS,
  request: (args) => ({
    query: { source: args.text('source'), waiting: args.flag('all') ? undefined : 'true' },
  }),
  rows: ({ pins }) => pins,
  columns: {
    TOOL: ({ tool }) => tool,
    STATE: ({ state }) => state,
    VERSION: ({ version }) => version,
    WAITING: ({ waiting }) =>
      waiting && `${waiting.kind}${waiting.rejected_by === null ? '' : ' (rejected)'}`,
    CLASS: ({ waiting }) => waiting?.class ?? null,
    REASON: ({ waiting }) => cleanText(whyText(waiting)).slice(0, 100),
  },
  empty: (args) => (args.flag('all') ? 'No tool is pinned.' : 'Nothing waits for a decision.'),
})

function whyText(waiting: Pin['waiting']): string {
  const [reason, ...more] = waiting?.reasons ?? []
  return [
    ...(reason ? [reason] : []),
    ...(waiting?.renamed_from == null ? [] : [`was ${waiting.renamed_from}`]),
    ...(more.length > 0 ? [`${more.length} more`] : []),
  ].join('; ')
}

const MAX_SHOWN = 400

const pinsDiff = operatorCommand({
  name: 'pins diff',
  summary: 'Shows what accepting would change about an imported tool, most serious first.',
  details: ['Invisible characters are shown as \\u escapes. --json prints every value in full.'],
  positionals: [TOOL],
  options: PIN_OPTIONS,
  examples: ['collet pins diff github.issues_create'],
  client: pinClient,
  operation: SHOW_PIN,
  print: (diff, { output }) => printDiff(diff, output),
})

const ORDER = ['suspicious', 'breaking', 'widening', 'wording']

function printDiff(diff: PinDiff, output: Output): void {
  const { tool, state, version, waiting, next_version: next, differences } = diff
  output.data(`${tool} is ${state}${version === null ? '' : ` at ${version}`}.`)
  if (waiting === null) {
    output.note('Nothing waits for a decision.')
    return
  }
  const renamed = waiting.renamed_from === null ? '' : `, renamed from ${cleanText(waiting.renamed_from)}`
  const would = next === null ? 'would remove it' : `would make it ${next}`
  output.data(`A ${waiting.class} ${waiting.kind} waits${renamed}; accepting ${would}.`)
  const sorted = differences.toSorted((left, right) => ORDER.indexOf(left.class) - ORDER.indexOf(right.class))
  for (const { class: found, where, says, before, after } of sorted) {
    output.data(`  ${found.padEnd(10)} ${cleanText(where)}: ${cleanText(says)}`)
    if (before !== undefined) output.data(`             - ${shortJson(before)}`)
    if (after !== undefined) output.data(`             + ${shortJson(after)}`)
  }
  if (waiting.rejected_by !== null) output.note(`${cleanText(waiting.rejected_by)} rejected it.`)
  output.note(`To accept exactly this: collet pins accept ${tool} --hash ${waiting.hash.slice(0, 12)}`)
}

function shortJson(value: unknown): string {
  const text = cleanJson(value)
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}

const pinsAccept: Command<'hash' | 'all' | 'source' | 'suspicious' | AdminOption> = {
  name: 'pins accept',
  summary: 'Accepts the waiting change of an imported tool: a new tool, a changed definition or a removal.',
  details: [
    'The version rises: major for breaking changes, minor for widening ones, patch for wording. Servers notice within a second.',
    '--all leaves out suspicious and rejected changes; --suspicious includes the suspicious ones. Who accepted, and when, is journaled.',
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
    const [tool] = args.positionals
    if (!args.flag('all')) {
      if (tool === undefined) throw new UsageError('Name a tool, or use --all --source KEY.')
      return await acceptOne.run(args, context)
    }
    const source = args.text('source')
    if (tool !== undefined || source === undefined)
      throw new UsageError('Use --all with --source KEY and without a tool.')
    const { output, json } = context
    const body = { source, suspicious: args.flag('suspicious') }
    const { accepted } = await pinClient(args, context).ask(ACCEPT_PINS, { body })
    if (json) output.json({ accepted })
    else if (accepted.length === 0) output.note('Nothing to accept: collet pins list shows changes.')
    else output.data(`Accepted ${accepted.length}: ${accepted.join(', ')}`)
  },
}

const acceptOne = operatorCommand({
  ...pinsAccept,
  positionals: [TOOL],
  client: pinClient,
  operation: ACCEPT_PIN,
  request: hashBody,
  print: ({ tool, state, version }, { output }) =>
    output.data(
      state === 'removed' ? `${tool} is no longer served.` : `${tool} is served at ${version ?? '1.0.0'}.`,
    ),
})

const pinsReject = operatorCommand({
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
  client: pinClient,
  operation: REJECT_PIN,
  request: hashBody,
  print: ({ tool, state }, { output }) => output.data(`${tool} stays ${state}.`),
})

function hashBody(args: Arguments<'hash'>) {
  return { body: defined({ hash: args.text('hash') }) }
}

/** Works on the store of this machine, even while a server uses it; the server sees the change within a second. */
function pinClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    onStore: ({ store, access }) =>
      createPinRoutes(access, new Pins({ store, clock: context.clock, log: SILENT_LOGGER })),
  })
}

export const COMMANDS = [pinsList, pinsDiff, pinsAccept, pinsReject]
