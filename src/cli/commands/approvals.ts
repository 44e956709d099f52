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
import { loadProjectConfig } from '#cli/project'
import { loadTools } from '#config/load-tools'
import { Approvals, type ApprovalsOptions, type Approver } from '#core/approvals/approvals'
import { isToolError } from '#core/errors'
import { cleanJson, cleanText, type JsonObject } from '#core/json'
import type { ApprovalRecord, ApprovalState } from '#core/ports/approval-store'
import type { Denial } from '#core/ports/key-store'
import { opaquePrincipal } from '#core/principal'
import { type ApprovalView, decided, readDecision, renderApproval } from '#server/admin/approvals'

/** How commands about approvals are told where: the store itself, or a server. */
const APPROVAL_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so do --key and COLLET_API_KEY.' },
  key: {
    value: 'K',
    help: 'API key with the scope approvals:respond. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

/**
 * A credential that was given is used: who decides matters more here than where. The store itself knows no callers, so
 * it is asked only without one, or where it is named.
 */
function asksServerAboutApprovals(
  args: Arguments<'url' | 'key' | 'store'>,
  { environment }: CommandContext,
): boolean {
  return asksServer(args) || (environment.apiKey !== undefined && args.text('store') === undefined)
}

async function withApprovals<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (approvals: Approvals, approver: Approver) => Promise<T>,
): Promise<T> {
  try {
    return await withStore(args, context, async (store) => {
      const { clock } = context
      const denials: Denial[] = []
      const onDenied: ApprovalsOptions['onDenied'] = (who, facts) => {
        const principal = opaquePrincipal(store, who)
        denials.push({ ...facts, atMs: clock.nowMs(), tenant: who.tenant, principal, count: 1 })
      }
      const definitionOf = await definitionsHere(args, context)
      try {
        return await work(new Approvals({ store, clock, onDenied, definitionOf }), {
          id: nameAtStore(context),
          tenant: undefined,
          scopes: ['*'],
        })
      } finally {
        if (denials.length > 0) await store.audit.recordDenials(denials)
      }
    })
  } catch (error) {
    if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** The definitions of the config here; a store that was named alone says nothing of tools, nor does a config with faults. */
async function definitionsHere(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<(tool: string) => string | undefined> {
  if (args.text('store') !== undefined && args.text('config') === undefined) return () => undefined
  const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
  const hashes = new Map(tools.map(({ id, definitionHash }) => [id, definitionHash]))
  return (tool) => hashes.get(tool)
}

async function askAboutApprovals(
  request: { readonly method: 'GET' | 'POST'; readonly path: string; readonly body?: JsonObject },
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<JsonObject> {
  return await askAsOperator({ ...request, path: `/admin/approvals${request.path}` }, args, context)
}

function noCollet(args: Arguments<'url'>): CommandFailure {
  const url = args.text('url') ?? 'The server'
  return new CommandFailure(EXIT.server, `${url} gave no approvals. Is it a Collet server of this version?`)
}

const ROW = z.object({
  id: z.string(),
  state: z.string(),
  tenant: z.string(),
  principal: z.string(),
  record: z.string(),
  call_id: z.string(),
  run_id: z.string(),
  user_id: z.string().nullable(),
  /** A server of an earlier version does not say, so it is not. */
  user_proven: z.boolean().default(false),
  attempt: z.number(),
  tool: z.string(),
  safety_tier: z.string(),
  args_hash: z.string(),
  definition_hash: z.string(),
  stale: z.boolean(),
  summary: z.json(),
  /** Not in lists. */
  input: z.json().optional(),
  input_bytes: z.number(),
  hidden_values: z.number(),
  hides_something: z.boolean(),
  quorum: z.number(),
  required_scope: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
  decided_at: z.string().nullable(),
  decisions: z.array(
    z.object({ by: z.string(), action: z.string(), reason: z.string().nullable(), at: z.string() }),
  ),
})

/** A question as operators see it, from the store or from a server: the same members. */
type ApprovalRow = z.output<typeof ROW>

const APPROVAL_HEADINGS = ['ID', 'STATE', 'TOOL', 'CALLED BY', 'APPROVERS', 'OPEN UNTIL'] as const

function approvalCells(row: ApprovalRow): readonly string[] {
  const granted = row.decisions.filter(({ action }) => action !== 'reject').length
  return [row.id, stateOf(row), row.tool, row.principal, `${granted}/${row.quorum}`, row.expires_at]
}

/** A question whose tool is another one by now can only be rejected. */
function stateOf({ state, stale }: ApprovalRow): string {
  return stale ? 'stale' : state
}

function rowOfApproval(approval: ApprovalRecord, view: ApprovalView): ApprovalRow {
  return ROW.parse(renderApproval(approval, view))
}

function rowsOfApprovals(answer: JsonObject): readonly ApprovalRow[] | undefined {
  return z.object({ approvals: z.array(ROW) }).safeParse(answer).data?.approvals
}

function rowOfAnswer(answer: JsonObject): ApprovalRow | undefined {
  return z.object({ approval: ROW }).safeParse(answer).data?.approval
}

const STALE = 'its definition changed since it was asked; it can only be rejected'

/** A yes to what cannot be seen needs a word of its own. */
function hiddenNote({ hidden_values: hidden, hides_something: hides }: ApprovalRow): string {
  if (!hides) return ''
  const what = hidden === 0 ? 'not all of it is kept' : `${hidden} of its values hidden as credentials`
  return `, ${what}: approving it takes --accept-hidden`
}

/** The mark stands before the id: callers choose ids, and how long they are. */
function userLines({
  user_id: id,
  user_proven: isProven,
}: ApprovalRow): readonly (readonly [string, string])[] {
  return id === null ? [] : [['for user', isProven ? id : `(claimed, not proven) ${id}`]]
}

/** Everything about one, line by line, for a person who decides. */
function approvalLines(row: ApprovalRow): readonly string[] {
  const lines: readonly (readonly [string, string])[] = [
    ['approval', row.id],
    ['state', row.stale ? `stale: ${STALE}` : row.state],
    ['tool', `${row.tool} (${row.safety_tier})`],
    ['called by', row.principal],
    ...userLines(row),
    ['tenant', row.tenant],
    ['call', `${row.call_id} (record ${row.record}, attempt ${row.attempt})`],
    ['run', row.run_id],
    ['input hash', row.args_hash],
    ['definition', row.definition_hash],
    ['needs', `${row.quorum} with the scope ${row.required_scope}`],
    ['asked', row.created_at],
    ['open until', row.expires_at],
    ...row.decisions.map(({ by, action, reason, at }): readonly [string, string] => [
      action,
      `${by} at ${at}${reason === null ? '' : `: ${reason}`}`,
    ]),
  ]
  const shown = lines.map(([label, text]) => `${label.padEnd(12)}${cleanText(text)}`)
  const [summary, whole] = [cleanJson(row.summary, 2), cleanJson(row.input ?? null, 2)]
  return [
    ...shown,
    ...(summary === whole ? [] : ['summary:', summary]),
    `the whole input (${row.input_bytes} bytes)${hiddenNote(row)}:`,
    whole,
  ]
}

interface CliDecision {
  readonly verb: 'approve' | 'reject'
  readonly id: string
  readonly body: JsonObject
}

/** Says yes or no, on the store or through a server; the question as it stands after that. */
async function decideApproval(
  { verb, id, body }: CliDecision,
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<ApprovalRow> {
  if (!asksServerAboutApprovals(args, context)) {
    actAtStore(context)
    return await withApprovals(args, context, async (approvals, approver) => {
      const decision = readDecision(verb, body)
      const result = await approvals.decide(approver, await approvals.find(approver, id), decision)
      const after = decided(result)
      return rowOfApproval(after, { nowMs: context.clock.nowMs(), isStale: approvals.isStale(after) })
    })
  }
  const path = `/${encodeURIComponent(id)}/${verb}`
  const row = rowOfAnswer(await askAboutApprovals({ method: 'POST', path, body }, args, context))
  if (row === undefined) throw noCollet(args)
  return row
}

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

const MOST = 1_000
const DEFAULT_LIMIT = 100
const STATE_NAMES = [
  'pending',
  'granted',
  'used',
  'rejected',
  'expired',
  'cancelled',
] as const satisfies readonly ApprovalState[]

export const approvalsList = defineCommand({
  name: 'approvals list',
  summary: 'Lists calls that wait for an approval, and what was decided.',
  details: ['Reads the store itself, also while a server uses it. With --url it asks the server.'],
  positionals: [],
  options: {
    state: {
      value: 'S',
      help: `Only such as are: ${STATE_NAMES.join(', ')}. Default pending; "all" for all.`,
    },
    limit: { value: 'N', help: `At most so many. Default ${DEFAULT_LIMIT}.` },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals list', 'collet approvals list --state rejected --json'],
  async run(args, context) {
    const { output, json, clock } = context
    const asked = args.oneOf('state', ['all', ...STATE_NAMES]) ?? 'pending'
    const state = asked === 'all' ? undefined : asked
    const limit = args.integer('limit', { least: 1, most: MOST }) ?? DEFAULT_LIMIT
    const filter = { limit, ...(state === undefined ? {} : { state }) }
    const query = new URLSearchParams({ limit: String(limit), ...(state === undefined ? {} : { state }) })
    const rows = !asksServerAboutApprovals(args, context)
      ? await withApprovals(args, context, async (approvals, approver) =>
          (await approvals.list(approver, filter)).map((found) =>
            rowOfApproval(found, { nowMs: clock.nowMs(), isStale: approvals.isStale(found) }),
          ),
        )
      : rowsOfApprovals(await askAboutApprovals({ method: 'GET', path: `?${query}` }, args, context))
    if (rows === undefined) throw noCollet(args)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('There are no such approvals.')
    else for (const line of renderTable(APPROVAL_HEADINGS, rows.map(approvalCells))) output.data(line)
    return EXIT.ok
  },
})

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

const NO_SUCH_APPROVAL = 'There is no such approval. collet approvals list shows them.'

export const approvalsShow = defineCommand({
  name: 'approvals show',
  summary: 'Shows what an approval is about: tool, caller, and all of the input.',
  details: [
    'Only credentials that the tool asks for are hidden, and it says how many. Characters that hide or turn text are spelled out.',
  ],
  positionals: [{ name: 'ID', help: 'As collet approvals list shows it.' }],
  options: APPROVAL_OPTIONS,
  examples: ['collet approvals show s0Wc'],
  async run(args, context) {
    const [id = ''] = args.positionals
    const row = !asksServerAboutApprovals(args, context)
      ? await withApprovals(args, context, async (approvals, approver) => {
          const found = await approvals.find(approver, id)
          if (found === undefined) throw new CommandFailure(EXIT.usage, NO_SUCH_APPROVAL)
          return rowOfApproval(found, { nowMs: context.clock.nowMs(), isStale: approvals.isStale(found) })
        })
      : rowOfAnswer(
          await askAboutApprovals({ method: 'GET', path: `/${encodeURIComponent(id)}` }, args, context),
        )
    if (row === undefined) throw noCollet(args)
    if (context.json) context.output.json(row)
    else for (const line of approvalLines(row)) context.output.data(line)
    return EXIT.ok
  },
})
