import {
  APPROVE_CALL,
  type Approval,
  LIST_APPROVALS,
  MAKE_APPROVAL_LINK,
  REJECT_CALL,
  SHOW_APPROVAL,
} from '#admin-api/approvals'
import { SIGN_IN_BROWSER } from '#admin-api/server'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import { type Arguments, type CommandContext, UsageError } from '#cli/command'
import { listCommand, operatorCommand } from '#cli/operator-command'
import { counted, labelledLines } from '#cli/output'
import { configHere } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { APPROVAL_STATES } from '#kernel/approval/approval'
import { Approvals } from '#kernel/approval/approvals'
import { cleanJson, defined } from '#kernel/base/json'
import { createApprovalRoutes } from '#server/admin/approvals'
import { createRuleRoutes } from '#server/approvals/rules'

/**
 * `collet approvals list|show|approve|reject|link` and `collet sign-in`. They decide parked calls on the store or
 * through a server. Invariant: an operator with a credential decides through a server, under that credential's
 * identity; the store is used directly only without a credential, or with `--store`.
 */

const URL_OPTION = {
  url: { value: 'U', help: 'Ask this server instead of the store; --key and COLLET_API_KEY imply it.' },
} as const
export const APPROVAL_OPTIONS = { ...adminOptions('approvals:respond'), ...URL_OPTION } as const
const READ_OPTIONS = { ...adminOptions('approvals:read or approvals:respond'), ...URL_OPTION } as const

const ID = {
  id: 'approval',
  name: 'ID',
  help: 'The id that collet approvals list shows, or its first characters.',
} as const
const MAX = 1_000
const DEFAULT_LIMIT = 100

const approvalsList = listCommand({
  name: 'approvals list',
  summary: 'Lists calls that wait for approval, and past decisions.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  options: {
    state: {
      value: 'S',
      help: `Only those in this state: ${APPROVAL_STATES.join(', ')}, or all. Default pending.`,
    },
    limit: { value: 'N', help: `List at most N. Default ${DEFAULT_LIMIT}.` },
    ...READ_OPTIONS,
  },
  examples: ['collet approvals list', 'collet approvals list --state rejected --json'],
  client: approvalClient,
  operation: LIST_APPROVALS,
  request(args) {
    const state = args.oneOf('state', ['all', ...APPROVAL_STATES]) ?? 'pending'
    const limit = args.integer('limit', { min: 1, max: MAX }) ?? DEFAULT_LIMIT
    return { query: { limit, state: state === 'all' ? undefined : state } }
  },
  rows: ({ approvals }) => approvals,
  columns: {
    ID: ({ id }) => id,
    // A parked call whose tool has changed in the meantime can only be rejected.
    STATE: ({ stale, state }) => (stale ? 'stale' : state),
    TOOL: ({ tool }) => tool,
    'CALLED BY': ({ principal }) => principal,
    APPROVERS: ({ decisions, quorum }) =>
      `${decisions.filter(({ action }) => action !== 'reject').length}/${quorum}`,
    'OPEN UNTIL': ({ expires_at: expiresAt }) => expiresAt,
  },
  empty: 'No approval matches.',
})

const approvalsShow = operatorCommand({
  name: 'approvals show',
  summary: 'Shows what an approval is about: the tool, the caller and the whole input.',
  details: [
    'Only credentials that the tool declares are hidden, and their number is shown. Characters that hide or reverse text are escaped.',
  ],
  positionals: [ID],
  options: READ_OPTIONS,
  examples: ['collet approvals show s0Wc'],
  client: approvalClient,
  operation: SHOW_APPROVAL,
  json: ({ approval }) => approval,
  print({ approval }, { output }) {
    for (const line of linesOf(approval)) output.data(line)
  },
})

const STALE =
  'the definition of the tool has changed since the approval was requested; it can only be rejected'

function linesOf(row: Approval): readonly string[] {
  const facts = labelledLines([
    ['approval', row.id],
    ['state', row.stale ? `stale: ${STALE}` : row.state],
    ['tool', `${row.tool} (${row.safety_tier})`],
    ['description', row.description],
    ['called by', row.principal],
    // The mark stands before the id, because callers choose the id and its length.
    ['for user', row.user_id && (row.user_proven ? row.user_id : `(claimed, not proven) ${row.user_id}`)],
    ['tenant', row.tenant],
    ['call', `${row.call_id} (record ${row.record}, attempt ${row.attempt})`],
    ['run', row.run_id],
    ['input hash', row.args_hash],
    ['definition', row.definition_hash],
    ['needs', `${counted(row.quorum, 'approver')} with the scope ${row.required_scope}`],
    ['requested', row.created_at],
    ['open until', row.expires_at],
    ...row.decisions.map(
      ({ by, action, reason, at }) =>
        [action, `${by} at ${at}${reason === null ? '' : `: ${reason}`}`] as const,
    ),
  ])
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

/** Approving a call with hidden values requires `--accept-hidden`. */
function hiddenNote({ hidden_values: hidden, hides_something: hides }: Approval): string {
  if (!hides) return ''
  const what = hidden === 0 ? 'not all of it is kept' : `${hidden} of its values hidden as credentials`
  return `, ${what}: approving it requires --accept-hidden`
}

const approvalsApprove = operatorCommand({
  name: 'approvals approve',
  summary: 'Approves a waiting call, which runs when its caller repeats it.',
  details: [
    'The approval is for exactly this call (caller, user, tool definition, input and credentials) and can be used once.',
    'It is written to the store directly, even while a server uses it; with --url the server is asked. Who decided, and why, is journaled.',
  ],
  positionals: [ID],
  options: {
    reason: { value: 'TEXT', help: 'Reason, for the journal.' },
    'accept-hidden': {
      help: 'Approve although some of the input is hidden, as collet approvals show reports.',
    },
    override: { help: 'Override the quorum, if the config allows it; needs --reason.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals approve s0Wc --reason "Asked the customer."'],
  client: approvalClient,
  operation: APPROVE_CALL,
  request: (args) => ({
    body: defined({
      reason: args.text('reason'),
      accept_hidden: args.flag('accept-hidden') || undefined,
      override: args.flag('override') || undefined,
    }),
  }),
  json: ({ approval }) => approval,
  print: ({ approval: { id, state, quorum, decisions } }, { output }) =>
    output.data(
      state === 'pending'
        ? `${id} has ${decisions.length} of ${quorum} approvals.`
        : `${id} is approved. The call runs when its caller repeats it.`,
    ),
})

const approvalsReject = operatorCommand({
  name: 'approvals reject',
  summary: 'Rejects a waiting call, which then never runs.',
  details: ['The caller gets the reason. Who decided, and why, goes into the journal.'],
  positionals: [ID],
  options: {
    reason: { value: 'TEXT', help: 'Reason, which the caller can read.' },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals reject s0Wc --reason "Wrong recipient."'],
  client: approvalClient,
  operation: REJECT_CALL,
  request: (args) => ({ body: defined({ reason: args.text('reason') }) }),
  json: ({ approval }) => approval,
  print: ({ approval }, { output }) => output.data(`${approval.id} is rejected.`),
})

const ONLY_SHOWS =
  'This link only shows the call: deciding it requires a sign-in, and the server has no oauth.signIn. Decide with collet approvals approve.'

const approvalsLink = operatorCommand({
  name: 'approvals link',
  summary: 'Creates a link, for chat or mail, with which one approver can decide once.',
  details: [
    'It opens a page; only a button there decides. With oauth.signIn in the config, the person who opens it must sign in as NAME.',
    'Without it anyone who has the link decides as NAME, so send it only to that person; calls that need several approvers, and commands, are then only shown.',
  ],
  positionals: [ID],
  options: {
    for: {
      value: 'NAME',
      required: true,
      help: 'The approver that the link is for; the journal records the decision under this name.',
    },
    ...APPROVAL_OPTIONS,
  },
  examples: ['collet approvals link s0Wc --for alice@example.com'],
  // Only a server knows the base address of its links.
  client: (args, context) => new AdminClient(args, context),
  operation: MAKE_APPROVAL_LINK,
  request(args) {
    const approver = args.text('for')
    if (approver === undefined) throw new UsageError('Name the approver that the link is for: --for NAME.')
    return { body: { approver } }
  },
  // The token is part of the address.
  json: ({ token: _token, ...link }) => link,
  print: ({ url }, { output }) => output.data(url),
  note({ power }, { output }) {
    if (power !== 'decide') output.note(ONLY_SHOWS)
  },
})

const { store: STORE, config: CONFIG, url: SERVER } = APPROVAL_OPTIONS

const signIn = operatorCommand({
  name: 'sign-in',
  summary: 'Prints an address that signs your browser in, once, to the console of a server on this machine.',
  details: [
    'The console shows tools and calls, decides approvals, and manages sources and keys. You are signed in for 12 hours, or until the server stops.',
    "It needs the server's start token, which is in a file that only the server's user can read. collet serve also prints a sign-in address when it starts. For collet mcp, which serves only approval pages, the approval page shows the --url.",
  ],
  positionals: [{ name: 'ID', optional: true, help: 'Continue to the page for this approval.' }],
  options: { store: STORE, config: CONFIG, url: { ...SERVER, help: 'Server to sign in to.' } },
  examples: ['collet sign-in', 'collet sign-in s0Wc --url http://127.0.0.1:4100'],
  client: (args, context) => new AdminClient(args, context, { onlyStartToken: true }),
  operation: SIGN_IN_BROWSER,
  request: ({ positionals: [approval] }) => ({ isReadOnly: true, body: defined({ approval }) }),
  print: ({ url }, { output }) => output.data(url),
})

/**
 * Asks a server if there is a credential, because only a server knows the credential's owner. The store is used
 * directly without a credential, or if `--store` names it and neither `--key` nor `--url` is given.
 */
export function approvalClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  const { clock, environment } = context
  const hasCredential = environment.apiKey !== undefined && args.text('store') === undefined
  return new AdminClient(args, context, {
    asksServer: isServerNamed(args) || hasCredential,
    async onStore({ store, access, noteDenial }) {
      const loaded = await configHere(args, context)
      // A tool that cannot be loaded must not keep calls from being decided.
      const tools = loaded === undefined ? [] : (await loadTools(loaded)).tools
      const byId = new Map(tools.map((tool) => [tool.id, tool]))
      const approvals = new Approvals({ store, clock, onDenied: noteDenial, toolOf: (id) => byId.get(id) })
      const options = { approvals, canSignIn: false, publicUrl: () => '', listsInput: true }
      const definitionOf = (tool: string) => byId.get(tool)?.definitionHash
      return [
        ...createApprovalRoutes(access, options),
        ...createRuleRoutes(access, { approvals, store, clock, definitionOf }),
      ]
    },
  })
}

export const COMMANDS = [
  approvalsList,
  approvalsShow,
  approvalsApprove,
  approvalsReject,
  approvalsLink,
  signIn,
]
