import {
  CREATE_RULE,
  LIST_RULES,
  PREVIEW_RULE,
  REVOKE_RULE,
  type Rule,
  type RuleCondition,
} from '#admin-api/rules'
import { defineCommand, UsageError } from '#cli/command'
import { APPROVAL_OPTIONS, approvalClient } from '#cli/commands/approvals'
import { resolveId } from '#cli/id-prefix'
import { listCommand, operatorCommand } from '#cli/operator-command'
import { counted, type Output } from '#cli/output'
import { cleanJson, cleanText, defined, type JsonValue, parseJson } from '#kernel/base/json'

/**
 * `collet rules list|add|revoke`: standing rules, by which an approver approves further calls in advance. They are
 * made from a request for approval, on the store or through a server. Invariant: a rule begins as narrow as possible, with
 * every value equal; each option widens one member of the input, and the command says what the rule then covers.
 */

const MAX_LISTED = 1_000

const rulesList = listCommand({
  name: 'rules list',
  summary: 'Lists standing rules: which calls are approved in advance, by whom, and how often each was used.',
  details: ['Reads the store directly, even while a server uses it; with --url it asks the server.'],
  options: { all: { help: 'Also rules that were used up, expired or revoked.' }, ...APPROVAL_OPTIONS },
  examples: ['collet rules list', 'collet rules list --all --json'],
  client: approvalClient,
  operation: LIST_RULES,
  request: (args) => ({ query: { state: args.flag('all') ? 'all' : 'active', limit: MAX_LISTED } }),
  rows: ({ rules }) => rules,
  columns: {
    ID: ({ id }) => id,
    STATE: ({ stale, state }) => (stale && state === 'active' ? 'stale' : state),
    TOOL: ({ tool }) => tool,
    'CALLED BY': ({ principal }) => principal,
    USES: ({ uses, max_uses: max }) => (max === null ? uses : `${uses}/${max}`),
    UNTIL: ({ expires_at: expiresAt }) => expiresAt,
    INPUT: ({ conditions }) => conditions.map(textOf).join(', '),
  },
  empty: 'No rule approves calls in advance.',
})

const rulesAdd = defineCommand({
  name: 'rules add',
  summary: 'Approves further calls like a given one in advance.',
  details: [
    'The rule covers the same caller, user, credentials and tool definition as the approval, and only inputs that are equal. Each of --any, --max, --min and --one-of widens one member of the input, named by its path: /amount, /to/name.',
    'A call that the rule covers is approved when it is made; the journal names the rule. Calls of commands, and calls that need several approvers, are always approved one at a time.',
    '--preview only prints how many of the latest requests the rule would have approved.',
  ],
  positionals: [
    {
      name: 'APPROVAL',
      help: 'The id that collet approvals list --state all shows, or its first characters.',
    },
  ],
  options: {
    any: { value: 'PATH', many: true, help: 'Allow any value of this member, also none.' },
    max: { value: 'PATH=N', many: true, help: 'Allow numbers up to N for this member.' },
    min: { value: 'PATH=N', many: true, help: 'Allow numbers from N on for this member.' },
    'one-of': { value: 'PATH=JSON', many: true, help: 'Allow each value of this JSON list for this member.' },
    until: { value: 'WHEN', help: 'When it expires: 7d, or 2027-01-31T00:00:00Z. Default: 7d.' },
    uses: { value: 'N', help: 'Approve at most N calls.' },
    reason: { value: 'TEXT', help: 'Reason, for lists.' },
    preview: { help: 'Make no rule; only print what it would have covered.' },
    ...APPROVAL_OPTIONS,
  },
  examples: [
    'collet rules add s0Wc --max /amount=100 --until 7d --uses 50',
    'collet rules add s0Wc --any /note --preview',
  ],
  async run(args, context) {
    const [typed = ''] = args.positionals
    const { output, json, clock } = context
    const client = approvalClient(args, context)
    const approval = await resolveId('approval', typed, client)
    const { conditions: narrow } = await client.ask(PREVIEW_RULE, { id: approval })
    const conditions = widen(narrow, {
      any: args.texts('any'),
      max: args.texts('max'),
      min: args.texts('min'),
      oneOf: args.texts('one-of'),
    })
    const preview = await client.ask(PREVIEW_RULE, { id: approval, body: { conditions } })
    if (args.flag('preview')) {
      if (json) output.data(cleanJson(preview))
      else printPreview(preview, output)
      return
    }
    const expiresAt = args.expiry('until', clock.nowMs()) ?? new Date(clock.nowMs() + WEEK_MS).toISOString()
    const uses = args.integer('uses', { min: 1, max: 1_000_000 })
    const { rule } = await client.ask(CREATE_RULE, {
      body: {
        ...{ approval, conditions, expires_at: expiresAt },
        ...defined({ max_uses: uses, reason: args.text('reason') }),
      },
    })
    if (json) output.data(cleanJson(rule))
    else {
      printRule(rule, output)
      output.note(coverage(preview))
    }
  },
})

const WEEK_MS = 7 * 86_400_000

interface Widening {
  readonly any: readonly string[]
  readonly max: readonly string[]
  readonly min: readonly string[]
  readonly oneOf: readonly string[]
}

type Limits =
  | { readonly min: number }
  | { readonly max: number }
  | { readonly min: number; readonly max: number }

/** Replaces the conditions for the named members, and for everything inside them. */
function widen(
  narrow: readonly RuleCondition[],
  { any, max, min, oneOf }: Widening,
): readonly RuleCondition[] {
  const limits = new Map<string, Limits>()
  for (const [name, texts] of Object.entries({ min, max })) {
    for (const [path, text] of texts.map((each) => pairOf(`--${name}`, each))) {
      const limit = Number(text)
      if (text.trim() === '' || !Number.isFinite(limit))
        throw new UsageError(`--${name} ${path}: "${text}" is not a number.`)
      const other = limits.get(path) ?? {}
      limits.set(path, name === 'min' ? { ...other, min: limit } : { ...other, max: limit })
    }
  }
  const wider: readonly RuleCondition[] = [
    ...any.map((path) => ({ path, any: true as const })),
    ...[...limits].map(([path, limit]) => ({ path, ...limit })),
    ...oneOf.map((each) => {
      const [path, text] = pairOf('--one-of', each)
      return { path, one_of: listOf(text, path) }
    }),
  ]
  const isReplaced = ({ path }: RuleCondition): boolean =>
    wider.some((each) => path === each.path || path.startsWith(`${each.path}/`))
  return [...narrow.filter((condition) => !isReplaced(condition)), ...wider]
}

function pairOf(option: string, text: string): readonly [path: string, value: string] {
  const at = text.indexOf('=')
  if (at === -1) throw new UsageError(`${option} needs a path and a value: ${option} /amount=100.`)
  return [text.slice(0, at), text.slice(at + 1)]
}

function listOf(text: string, path: string): JsonValue[] {
  const value = parseJson(text)
  if (!Array.isArray(value) || value.length === 0)
    throw new UsageError(`--one-of ${path} needs a JSON list: --one-of '${path}=["EUR","USD"]'.`)
  return value
}

/** `/amount at most 100` */
function textOf(condition: RuleCondition): string {
  const name = cleanText(condition.path === '' ? 'the input' : condition.path)
  if ('any' in condition) return `${name} any value`
  if ('equals' in condition) return `${name} = ${cleanJson(condition.equals)}`
  if ('one_of' in condition) return `${name} one of ${cleanJson(condition.one_of)}`
  const from = 'min' in condition ? [`from ${condition.min}`] : []
  const upTo = 'max' in condition ? [`at most ${condition.max}`] : []
  return [name, ...from, ...upTo].join(' ')
}

function coverage({ covered, of }: { readonly covered: number; readonly of: number }): string {
  return `It would have approved ${covered} of the last ${counted(of, 'request')} of this caller for this tool.`
}

function printPreview(
  preview: { readonly conditions: readonly RuleCondition[]; readonly covered: number; readonly of: number },
  output: Output,
): void {
  for (const condition of preview.conditions) output.data(textOf(condition))
  output.note(coverage(preview))
}

function printRule(
  { id, tool, principal, conditions, expires_at: until, max_uses: max }: Rule,
  output: Output,
): void {
  output.data(
    `Rule ${id} approves calls of ${tool} by ${principal} until ${until}${max === null ? '' : `, at most ${max}`}, with:`,
  )
  for (const condition of conditions) output.data(`  ${textOf(condition)}`)
}

const rulesRevoke = operatorCommand({
  name: 'rules revoke',
  summary: 'Revokes a standing rule at once. Calls that it already approved may still run.',
  positionals: [
    { id: 'rule', name: 'ID', help: 'The id that collet rules list shows, or its first characters.' },
  ],
  options: APPROVAL_OPTIONS,
  examples: ['collet rules revoke Wq3k'],
  client: approvalClient,
  operation: REVOKE_RULE,
  json: ({ rule }) => rule,
  print: ({ rule: { id, uses } }, { output }) =>
    output.data(`${id} is revoked. It approved ${counted(uses, 'call')}.`),
})

export const COMMANDS = [rulesList, rulesAdd, rulesRevoke]
