import type { ApprovalLink, ListedApproval } from '#admin-api/approvals'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  UsageError,
} from '#cli/command'
import { resolveId } from '#cli/id-prefix'
import { renderTable } from '#cli/output'
import { isStoreAlone, loadProjectConfig } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { APPROVAL_STATES } from '#kernel/approval/approval'
import { Approvals } from '#kernel/approval/approvals'
import type { AskedTool } from '#kernel/approval/decisions'
import { cleanJson, cleanText, type JsonObject } from '#kernel/base/json'
import { createApprovalRoutes } from '#server/admin/approvals'

/**
 * `collet approvals list|show|approve|reject|link` and `collet sign-in`. They decide parked calls on the store or
 * through a server. Invariant: a credential that was given decides under its own name; the store itself is used only
 * without one, or if it is named.
 */

const URL_OPTION = {
  url: { value: 'U', help: 'Ask this server instead of the store; --key and COLLET_API_KEY imply it.' },
} as const
const APPROVAL_OPTIONS = { ...adminOptions('approvals:respond'), ...URL_OPTION } as const
const READ_OPTIONS = { ...adminOptions('approvals:read or approvals:respond'), ...URL_OPTION } as const

const ID = { name: 'ID', help: 'As collet approvals list shows it, or its beginning.' } as const
const MAX = 1_000
const DEFAULT_LIMIT = 100
const HEADINGS = ['ID', 'STATE', 'TOOL', 'CALLED BY', 'APPROVERS', 'OPEN UNTIL'] as const

const approvalsList = defineCommand<'state' | 'limit' | AdminOption>({
  name: 'approvals list',
  summary: 'Lists calls that wait for approval, and decisions that were made.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  positionals: [],
  options: {
    state: {
      value: 'S',
      help: `Only those in this state: ${APPROVAL_STATES.join(', ')}, or all. Default pending.`,
    },
    limit: { value: 'N', help: `List at most N. Default ${DEFAULT_LIMIT}.` },
    ...READ_OPTIONS,
  },
  examples: ['collet approvals list', 'collet approvals list --state rejected --json'],
  async run(args, context) {
    const { output, json } = context
    const state = args.oneOf('state', ['all', ...APPROVAL_STATES]) ?? 'pending'
    const limit = args.integer('limit', { min: 1, max: MAX }) ?? DEFAULT_LIMIT
    const query = new URLSearchParams({ limit: String(limit), ...(state === 'all' ? {} : { state }) })
    const { approvals } = await clientOf(args, context).request<ListedApprovals>(
      { method: 'GET', path: `/admin/approvals?${query}` },
      'approvals',
    )
    if (json) output.json(approvals.map(shown))
    else if (approvals.length === 0) output.note('There are no such approvals.')
    else for (const line of renderTable(HEADINGS, approvals.map(cellsOf))) output.data(line)
    return EXIT.ok
  },
})

function cellsOf(row: ListedApproval): readonly string[] {
  const granted = row.decisions.filter(({ action }) => action !== 'reject').length
  // A parked call whose tool has changed since can only be rejected.
  const state = row.stale ? 'stale' : row.state
  return [row.id, state, row.tool, row.principal, `${granted}/${row.quorum}`, row.expires_at]
}

const approvalsShow = defineCommand<AdminOption>({
  name: 'approvals show',
  summary: 'Shows what an approval is about: the tool, the caller and the whole input.',
  details: [
    'Only credentials that the tool declares are hidden, and their number is shown. Characters that hide or reverse text are escaped.',
  ],
  positionals: [ID],
  options: READ_OPTIONS,
  examples: ['collet approvals show s0Wc'],
  async run(args, context) {
    const approval = await requestApproval({ method: 'GET', verb: '' }, args, context)
    if (context.json) context.output.json(shown(approval))
    else for (const line of linesOf(approval)) context.output.data(line)
    return EXIT.ok
  },
})

const STALE =
  'the definition of the tool has changed since the approval was requested; it can only be rejected'

function linesOf(row: ListedApproval): readonly string[] {
  const lines: readonly (readonly [string, string])[] = [
    ['approval', row.id],
    ['state', row.stale ? `stale: ${STALE}` : row.state],
    ['tool', `${row.tool} (${row.safety_tier})`],
    ...(row.description == null ? [] : [['which', row.description] as const]),
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
  const facts = lines.map(([label, text]) => `${label.padEnd(12)}${cleanText(text)}`)
  if (row.input === undefined)
    return [...facts, 'The input needs a credential with the scope approvals:respond.']
  const [summary, whole] = [cleanJson(row.summary, 2), cleanJson(row.input, 2)]
  return [
    ...facts,
    ...(summary === whole ? [] : ['summary:', summary]),
    `the whole input (${row.input_bytes} bytes)${hiddenNote(row)}:`,
    whole,
  ]
}

/** The mark stands before the id, because callers choose the id and its length. */
function userLines({
  user_id: id,
  user_proven: isProven,
}: ListedApproval): readonly (readonly [string, string])[] {
  return id === null ? [] : [['for user', isProven ? id : `(claimed, not proven) ${id}`]]
}

/** Approving hidden values requires its own option. */
function hiddenNote({ hidden_values: hidden, hides_something: hides }: ListedApproval): string {
  if (!hides) return ''
  const what = hidden === 0 ? 'not all of it is kept' : `${hidden} of its values hidden as credentials`
  return `, ${what}: approving it requires --accept-hidden`
}

const approvalsApprove = defineCommand<'reason' | 'accept-hidden' | 'override' | AdminOption>({
  name: 'approvals approve',
  summary: 'Approves a waiting call. It runs when its caller repeats it.',
  details: [
    'The approval is for exactly this call (caller, user, tool definition, input and credentials) and can be used once.',
    'It is written to the store directly, even while a server uses it; with --url the server is asked. Who decided, and why, is journaled.',
  ],
  positionals: [ID],
  options: {
    reason: { value: 'TEXT', help: 'Why; it goes into the journal.' },
    'accept-hidden': {
      help: 'Approve although some of the input is hidden, as collet approvals show tells you.',
    },
    override: { help: 'Override the quorum, where the config allows it; needs --reason.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals approve s0Wc --reason "Asked the customer."'],
  async run(args, context) {
    const body = {
      ...reasonOf(args),
      ...(args.flag('accept-hidden') ? { accept_hidden: true } : {}),
      ...(args.flag('override') ? { override: true } : {}),
    }
    const approval = await requestApproval({ method: 'POST', verb: '/approve', body }, args, context)
    const { id, state, quorum, decisions } = approval
    if (context.json) context.output.json(shown(approval))
    else if (state === 'pending') {
      context.output.data(`${id} has ${decisions.length} of ${quorum} approvals.`)
    } else context.output.data(`${id} is approved. It runs when its caller repeats the call.`)
    return EXIT.ok
  },
})

const approvalsReject = defineCommand<'reason' | AdminOption>({
  name: 'approvals reject',
  summary: 'Rejects a waiting call. It will never run.',
  details: ['The caller gets the reason. Who decided, and why, goes into the journal.'],
  positionals: [ID],
  options: {
    reason: { value: 'TEXT', help: 'Why; the caller gets to read it.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals reject s0Wc --reason "Wrong recipient."'],
  async run(args, context) {
    const body = reasonOf(args)
    const approval = await requestApproval({ method: 'POST', verb: '/reject', body }, args, context)
    if (context.json) context.output.json(shown(approval))
    else context.output.data(`${approval.id} is rejected.`)
    return EXIT.ok
  },
})

function reasonOf(args: Arguments<'reason'>): JsonObject {
  const reason = args.text('reason')
  return reason === undefined ? {} : { reason }
}

const ONLY_SHOWS =
  'This link only shows the call: deciding it requires a sign-in, and the server has no oauth.signIn. Decide with collet approvals approve.'

const approvalsLink = defineCommand<'for' | AdminOption>({
  name: 'approvals link',
  summary: 'Creates a link, for chat or mail, with which one approver can decide once.',
  details: [
    'It opens a page; only a button there decides. With oauth.signIn in the config, the person who opens it must sign in as NAME.',
    'Without it anyone who has the link decides as NAME, so send it only to that person; calls that need several approvers, and commands, are then only shown.',
  ],
  positionals: [ID],
  options: {
    for: { value: 'NAME', required: true, help: 'Who it is for; journaled as the one who decided.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals link s0Wc --for alice@example.com'],
  async run(args, context) {
    const approver = args.text('for')
    if (approver === undefined) throw new UsageError('Say who the link is for: --for NAME.')
    // Only a server knows the base address of its links.
    const client = new AdminClient(args, context)
    const path = `/admin/approvals/${encodeURIComponent(await resolveApprovalId(args, client))}/link`
    const { token: _inUrl, ...link } = await client.request<ApprovalLink>(
      { method: 'POST', path, body: { approver } },
      'url',
    )
    if (context.json) context.output.json(link)
    else context.output.data(link.url)
    if (link.power !== 'decide') context.output.note(ONLY_SHOWS)
    return EXIT.ok
  },
})

const { store: STORE, config: CONFIG, url: SERVER } = APPROVAL_OPTIONS

const signIn = defineCommand<'store' | 'config' | 'url'>({
  name: 'sign-in',
  summary: 'Prints an address that signs your browser in to the console of a server on this machine, once.',
  details: [
    'There you look at tools and calls, decide approvals, and manage sources and keys. You are signed in for 12 hours, or until the server stops.',
    'It needs the start token of the server, which is in a file that only its user can read. collet serve prints such an address when it starts. For collet mcp, which has pages of approvals alone, the page of the approval shows the --url.',
  ],
  positionals: [{ name: 'ID', optional: true, help: 'Go on to the page of this approval.' }],
  options: { store: STORE, config: CONFIG, url: { ...SERVER, help: 'Server to sign in to.' } },
  examples: ['collet sign-in', 'collet sign-in s0Wc --url http://127.0.0.1:4100'],
  async run(args, context) {
    const [approval] = args.positionals
    const client = new AdminClient(args, context, { onlyStartToken: true })
    const { url } = await client.request<{ readonly url: string }>(
      {
        ...{ method: 'POST', path: '/admin/sign-in', isQuestion: true },
        body: approval === undefined ? {} : { approval },
      },
      'url',
    )
    if (context.json) context.output.json({ url })
    else context.output.data(url)
    return EXIT.ok
  },
})

async function requestApproval(
  {
    verb,
    ...request
  }: { readonly method: 'GET' | 'POST'; readonly verb: string; readonly body?: JsonObject },
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<ListedApproval> {
  const client = clientOf(args, context)
  const path = `/admin/approvals/${encodeURIComponent(await resolveApprovalId(args, client))}${verb}`
  const { approval } = await client.request<{ readonly approval: ListedApproval }>(
    { ...request, path },
    'approval',
  )
  return approval
}

async function resolveApprovalId(args: Arguments<AdminOption>, client: AdminClient): Promise<string> {
  const [typed = ''] = args.positionals
  const known = async () => {
    const { approvals } = await client.request<ListedApprovals>(
      { method: 'GET', path: `/admin/approvals?limit=${MAX}` },
      'approvals',
    )
    return approvals.map(({ id, state, tool, principal }) => ({ id, about: [state, tool, principal] }))
  }
  return await resolveId(typed, known, { noun: 'approval', listedBy: 'collet approvals list --state all' })
}

interface ListedApprovals {
  readonly approvals: readonly ListedApproval[]
}

/**
 * A given credential decides which identity approves, so it selects the server. The store knows no callers, so it is
 * used only without a credential, or if it is named.
 */
function clientOf(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  const { clock, environment } = context
  const hasCredential = environment.apiKey !== undefined && args.text('store') === undefined
  return new AdminClient(args, context, {
    asksServer: isServerNamed(args) || hasCredential,
    async onStore({ store, access, noteDenial }) {
      const toolOf = await toolsHere(args, context)
      const approvals = new Approvals({ store, clock, onDenied: noteDenial, toolOf })
      return createApprovalRoutes(
        { approvals, canSignIn: false, publicUrl: () => '', listsInput: true },
        access,
      )
    },
  })
}

/** The tools of the config; a store without a config, or a config with errors, gives none. */
async function toolsHere(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<(id: string) => AskedTool | undefined> {
  if (isStoreAlone(args)) return () => undefined
  const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
  const byId = new Map(tools.map((tool) => [tool.id, tool]))
  return (id) => byId.get(id)
}

/** Leaves out the catalog id, which is for openwop; commands take `tool`. */
function shown({ tool_id: _catalogId, ...approval }: ListedApproval): object {
  return approval
}

export const COMMANDS: readonly Command[] = [
  approvalsList,
  approvalsShow,
  approvalsApprove,
  approvalsReject,
  approvalsLink,
  signIn,
]
