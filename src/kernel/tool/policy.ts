import type { Report } from '#kernel/base/errors'
import { defined, describeValue, isRecord } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { checkKeys, isText } from './checks.ts'
import { hasEffects, POLICY_FIELDS, type PolicyDefinition, type SourceKind, type ToolPolicy } from './tool.ts'

/**
 * Reads the `policy` of a definition and fills in defaults. `prepare-tool.ts` uses it for own and imported tools.
 * A missing tier or replay policy means a write that must not be repeated.
 */

const RERUN_WINDOW_MS = 3_600_000
const WORKFLOW_WINDOW_MS = 7 * 24 * 3_600_000

export function readPolicy(
  written: unknown,
  { source, defaultTimeoutMs }: { readonly source: SourceKind; readonly defaultTimeoutMs: number },
  report: Report,
): ToolPolicy {
  const given = isRecord(written) ? written : {}
  if (written !== undefined && !isRecord(written)) {
    report('policy', 'Is not an object.', "Write for example `{ safetyTier: 'read' }`, or leave it out.")
  }
  checkKeys(given, Object.keys(POLICY_FIELDS), 'policy', report)
  const isWorkflow = source === 'workflow'
  // A workflow's tier and egress are the worst of its steps; its author cannot lower them.
  for (const key of isWorkflow ? ['safetyTier', 'egress'] : []) {
    if (given[key] !== undefined) report(`policy/${key}`, 'Is derived from `uses`.', 'Leave it out.')
  }
  const choice = <Choice extends string>(name: keyof PolicyDefinition, field: Choices<Choice>) =>
    readChoice(name, field, given[name], report)
  const number = (name: 'timeoutMs' | 'rerunWindowMs' | 'cost' | 'modelBytes') =>
    readNumber(name, POLICY_FIELDS[name], given[name], report)
  const safetyTier = choice('safetyTier', POLICY_FIELDS.safetyTier) ?? 'write'
  const isExec = safetyTier === 'exec'
  const policy: ToolPolicy = defined({
    safetyTier,
    replay: choice('replay', POLICY_FIELDS.replay) ?? 'non-deterministic',
    egress: choice('egress', POLICY_FIELDS.egress) ?? (isExec ? 'host-owned' : undefined),
    approval: choice('approval', POLICY_FIELDS.approval) ?? (isExec ? 'always' : 'never'),
    scopes: readScopes(given.scopes, report),
    tenants: readTenants(given.tenants, report),
    timeoutMs: number('timeoutMs') ?? defaultTimeoutMs,
    // A workflow that continues repeats no finished step, so it may continue after a long time (rule 31).
    rerunWindowMs: number('rerunWindowMs') ?? (isWorkflow ? WORKFLOW_WINDOW_MS : RERUN_WINDOW_MS),
    costHint: choice('costHint', POLICY_FIELDS.costHint),
    latencyHint: choice('latencyHint', POLICY_FIELDS.latencyHint),
    cost: number('cost'),
    modelBytes: number('modelBytes'),
    project: readTexts('project', given.project, "['items.name']", report),
    modelFormat: choice('modelFormat', POLICY_FIELDS.modelFormat),
    identity: readTexts('identity', given.identity, "['invoice_id']", report),
  })
  // The tier of a workflow is known only once its steps are known.
  if (!isWorkflow) checkTogether(policy, report)
  return Object.freeze(policy)
}

export function checkTogether(policy: ToolPolicy, report: Report): void {
  if (policy.replay === 'deterministic' && hasEffects(policy)) {
    report(
      'policy/replay',
      `A tool of tier \`${policy.safetyTier}\` changes something, so it is not \`deterministic\`.`,
      "Write `replay: 'idempotent'` if a repeated run changes nothing more, or say `safetyTier: 'pure'` or `'read'`.",
    )
  }
}

interface Choices<Choice> {
  readonly choices: readonly Choice[]
}

function readChoice<Choice extends string>(
  name: keyof PolicyDefinition,
  { choices }: Choices<Choice>,
  value: unknown,
  report: Report,
): Choice | undefined {
  const chosen = choices.find((choice) => choice === value)
  if (value === undefined || chosen !== undefined) return chosen
  const meant = typeof value === 'string' ? didYouMean(value, choices) : ''
  return report(
    `policy/${name}`,
    `Is ${describeValue(value)}.${meant}`,
    `Write one of: ${choices.join(', ')}.`,
  )
}

function readScopes(value: unknown, report: Report): readonly string[] {
  if (value === undefined) return Object.freeze([])
  const scopes: readonly unknown[] = Array.isArray(value) ? value : [undefined]
  const texts = scopes.filter(isText)
  if (texts.length < scopes.length) {
    report('policy/scopes', 'Is not a list of non-empty strings.', "Write `scopes: ['mail:send']`.")
  }
  const spaced = texts.find((scope) => !POLICY_FIELDS.scopes.each.test(scope))
  if (spaced !== undefined) {
    const problem = `${describeValue(spaced)} contains a space, which separates scopes.`
    report('policy/scopes', problem, "Write each scope as a separate string: `['mail:read', 'mail:send']`.")
  }
  return Object.freeze([...new Set(texts)])
}

/** An empty list is refused, because a tool without tenants would silently be hidden from all callers. */
function readTenants(value: unknown, report: Report): readonly string[] | undefined {
  if (value === undefined) return undefined
  const tenants: readonly unknown[] = Array.isArray(value) ? value : []
  const texts = tenants.filter(isText)
  if (texts.length === 0 || texts.length < tenants.length) {
    const fix = "Write `tenants: ['acme']`, or leave it out for all tenants."
    report('policy/tenants', 'Is not a list of tenants.', fix)
  }
  return Object.freeze([...new Set(texts)])
}

function readTexts(
  name: 'project' | 'identity',
  value: unknown,
  example: string,
  report: Report,
): readonly string[] | undefined {
  if (value === undefined) return undefined
  const given: readonly unknown[] = Array.isArray(value) ? value : []
  const texts = given.filter(isText)
  if (texts.length === 0 || texts.length < given.length) {
    const fix = `Write \`${name}: ${example}\`, or leave it out for all members.`
    report(`policy/${name}`, 'Is not a list of names.', fix)
  }
  return Object.freeze([...new Set(texts)])
}

function readNumber(
  name: keyof PolicyDefinition,
  { isWhole, min, max }: { readonly isWhole: boolean; readonly min: number; readonly max: number },
  value: unknown,
  report: Report,
): number | undefined {
  if (value === undefined) return undefined
  const isWithin = typeof value === 'number' && value >= min && value <= max
  if (isWithin && (!isWhole || Number.isInteger(value))) return value
  const fix = isWhole
    ? `Write a whole number of ${name.endsWith('Ms') ? 'milliseconds' : 'bytes'} from ${min} to ${max}.`
    : `Write a number from ${min} to ${max}, such as 2.5.`
  return report(`policy/${name}`, `Is ${describeValue(value)}.`, fix)
}
