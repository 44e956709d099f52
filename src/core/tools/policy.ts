import type { Report } from '#core/errors'
import { describeValue } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import {
  type Approval,
  type Egress,
  type Hint,
  hasEffects,
  type ReplayPolicy,
  type SafetyTier,
  type SourceKind,
  type ToolPolicy,
} from '#core/tool'
import { checkKeys, isText } from './checks.ts'
import type { PolicyDefinition } from './define.ts'

interface PolicyOptions {
  readonly source: SourceKind
  readonly defaultTimeoutMs: number
}

const HINTS = { low: true, medium: true, high: true } satisfies Record<Hint, true>
const CHOICES = {
  safetyTier: { pure: true, read: true, write: true, exec: true } satisfies Record<SafetyTier, true>,
  replay: { deterministic: true, idempotent: true, 'non-deterministic': true } satisfies Record<
    ReplayPolicy,
    true
  >,
  egress: { none: true, 'safe-fetch': true, 'host-mediated': true, 'host-owned': true } satisfies Record<
    Egress,
    true
  >,
  approval: { never: true, conditional: true, always: true } satisfies Record<Approval, true>,
  costHint: HINTS,
  latencyHint: HINTS,
}

const KEYS = Object.keys({
  safetyTier: true,
  replay: true,
  egress: true,
  approval: true,
  scopes: true,
  tenants: true,
  timeoutMs: true,
  rerunWindowMs: true,
  costHint: true,
  latencyHint: true,
  cost: true,
} satisfies Record<keyof PolicyDefinition, true>)

/** The longest delay a timer can hold; a longer one would fire at once. */
export const LONGEST_TIMEOUT_MS = 2_147_483_647
const RERUN_WINDOW_MS = 3_600_000
const WORKFLOW_WINDOW_MS = 7 * 24 * 3_600_000
const MOST_COST = 1_000_000_000

/** A policy with every default filled in: what is not said counts as the more careful choice. */
export function readPolicy(written: unknown, options: PolicyOptions, report: Report): ToolPolicy {
  const given = isRecord(written) ? written : {}
  if (written !== undefined && !isRecord(written)) {
    report('policy', 'Is not an object.', "Write `{ safetyTier: 'read' }` or the like, or leave it out.")
  }
  checkKeys(given, KEYS, 'policy', report)
  if (options.source === 'workflow') checkWorkedOut(given, report)
  const egress = readChoice('egress', given, report)
  const costHint = readChoice('costHint', given, report)
  const latencyHint = readChoice('latencyHint', given, report)
  const cost = readCost(given.cost, report)
  const tenants = readTenants(given.tenants, report)
  const policy: ToolPolicy = {
    safetyTier: readChoice('safetyTier', given, report) ?? 'write',
    replay: readChoice('replay', given, report) ?? 'non-deterministic',
    ...(egress === undefined ? {} : { egress }),
    approval: readChoice('approval', given, report) ?? 'never',
    scopes: readScopes(given.scopes, report),
    ...(tenants === undefined ? {} : { tenants }),
    timeoutMs: readMilliseconds('timeoutMs', given, { least: 1, usual: options.defaultTimeoutMs }, report),
    rerunWindowMs: readMilliseconds(
      'rerunWindowMs',
      given,
      { least: 0, usual: rerunWindow(options) },
      report,
    ),
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
    ...(cost === undefined ? {} : { cost }),
  }
  // What a workflow does is not known before its steps are.
  if (options.source !== 'workflow') checkTogether(policy, options.source, report)
  return Object.freeze(policy)
}

/** A workflow that was cut repeats nothing when it goes on, so it may do so for long (rule 31). */
function rerunWindow({ source }: PolicyOptions): number {
  return source === 'workflow' ? WORKFLOW_WINDOW_MS : RERUN_WINDOW_MS
}

/** The worst of what a workflow uses is what it is; nobody can say less. */
function checkWorkedOut(given: Readonly<Record<string, unknown>>, report: Report): void {
  for (const key of ['safetyTier', 'egress']) {
    if (given[key] === undefined) continue
    report(`policy/${key}`, 'Is worked out from `uses`.', 'Leave it out.')
  }
}

export function checkTogether(policy: ToolPolicy, source: SourceKind, report: Report): void {
  if (policy.replay === 'deterministic' && hasEffects(policy)) {
    report(
      'policy/replay',
      `A tool of tier \`${policy.safetyTier}\` changes something, so it is not \`deterministic\` (rule 7).`,
      "Write `replay: 'idempotent'` if a repeated run changes nothing more, or say `safetyTier: 'pure'` or `'read'`.",
    )
  }
  if (policy.safetyTier === 'exec' && source !== 'host-extension') {
    report(
      'policy/safetyTier',
      '`exec` is for commands that the host runs in isolation, not for tools written as code.',
      "Write `safetyTier: 'write'`.",
    )
  }
}

type ChoiceKey = keyof typeof CHOICES
type Choice<Key extends ChoiceKey> = keyof (typeof CHOICES)[Key]

function readChoice<Key extends ChoiceKey>(
  key: Key,
  given: Readonly<Record<string, unknown>>,
  report: Report,
): Choice<Key> | undefined {
  const value = given[key]
  const choices = CHOICES[key]
  if (value === undefined || isKeyOf(choices, value)) return value
  const known = Object.keys(choices)
  const meant = typeof value === 'string' ? didYouMean(value, known) : ''
  report(`policy/${key}`, `Is ${describeValue(value)}.${meant}`, `Write one of: ${known.join(', ')}.`)
  return undefined
}

function readScopes(value: unknown, report: Report): readonly string[] {
  if (value === undefined) return Object.freeze([])
  const scopes: readonly unknown[] = Array.isArray(value) ? value : [undefined]
  const texts = scopes.filter(isText)
  if (texts.length < scopes.length) {
    report('policy/scopes', 'Is not a list of non-empty texts.', "Write `scopes: ['mail:send']`.")
  }
  const spaced = texts.find((scope) => /\s/.test(scope))
  if (spaced !== undefined) {
    const problem = `${describeValue(spaced)} holds a space, which separates scopes.`
    report('policy/scopes', problem, "Write each scope as a text of its own: `['mail:read', 'mail:send']`.")
  }
  return Object.freeze([...new Set(texts)])
}

/** Nobody's tool would be a mistake that nobody sees. */
function readTenants(value: unknown, report: Report): readonly string[] | undefined {
  if (value === undefined) return undefined
  const tenants: readonly unknown[] = Array.isArray(value) ? value : []
  const texts = tenants.filter(isText)
  if (texts.length === 0 || texts.length < tenants.length) {
    report(
      'policy/tenants',
      'Is not a list of tenants.',
      "Write `tenants: ['acme']`, or leave it out for everybody.",
    )
  }
  return Object.freeze([...new Set(texts)])
}

function readCost(value: unknown, report: Report): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && value >= 0 && value <= MOST_COST) return value
  report('policy/cost', `Is ${describeValue(value)}.`, `Write a number from 0 to ${MOST_COST}, such as 2.5.`)
  return undefined
}

function readMilliseconds(
  key: 'timeoutMs' | 'rerunWindowMs',
  given: Readonly<Record<string, unknown>>,
  { least, usual }: { readonly least: number; readonly usual: number },
  report: Report,
): number {
  const value = given[key]
  if (value === undefined) return usual
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= LONGEST_TIMEOUT_MS) {
    return value
  }
  report(
    `policy/${key}`,
    `Is ${describeValue(value)}.`,
    `Write a whole number of milliseconds from ${least} to ${LONGEST_TIMEOUT_MS}.`,
  )
  return usual
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isKeyOf<Table extends object>(table: Table, value: unknown): value is keyof Table {
  return typeof value === 'string' && Object.hasOwn(table, value)
}
