import type { ChangeClass } from '#kernel/journal/events'
import { hasEffects, type SafetyTier } from '#kernel/tool/tool'
import type { AcceptedDefinition, PinRecord, StoredDefinition, WaitingChange } from '#store/imports'
import { definitionDiff, type OfferedBy } from './definition-diff.ts'
import { toolkitOf } from './project.ts'
import type { Difference } from './schema-diff.ts'
import { suspicionsOf } from './suspicions.ts'

/**
 * Pins as operators see them: their state, their waiting change and the effect of accepting it. The admin API, the command line and
 * calls to programs use it.
 * Invariant: a breaking or suspicious change of a tool with effects, or of a skill, suspends it (rule 32).
 */

/** Equal for pins with the same effect on agents and calls. */
export function servedHash(pin: PinRecord | undefined): string {
  if (pin?.accepted === undefined || !pin.isServed) return ''
  const { hash, version, offered } = pin.accepted
  return JSON.stringify([hash, version, offered.policy, suspensionOf(pin) ?? null])
}

/** `held`: not accepted yet. `removed`: an operator accepted its removal. */
type PinState = 'served' | 'suspended' | 'held' | 'removed'

/** A pinned tool as an operator sees it. */
export interface PinView {
  readonly source: string
  /** `Toolkit.Name`, its name in commands. */
  readonly tool: string
  readonly nativeName: string
  readonly state: PinState
  readonly version: string | undefined
  readonly hash: string | undefined
  readonly acceptedBy: string | undefined
  readonly acceptedAtMs: number | undefined
  readonly waiting: WaitingView | undefined
}

interface WaitingView extends Pick<WaitingChange, 'kind' | 'class' | 'reasons' | 'seenAtMs'> {
  readonly hash: string
  readonly renamedFrom: string | undefined
  readonly rejectedBy: string | undefined
}

/** A pinned tool with the changes that an approval would make. */
export interface PinDiff extends PinView {
  /** Version after an approval; `undefined` if the tool would be removed. */
  readonly nextVersion: string | undefined
  readonly differences: readonly Difference[]
}

/** `undefined` for a reserved name: a tool that disappeared before a decision. */
export function viewPin(source: string, pin: PinRecord): PinView | undefined {
  const { accepted, waiting } = pin
  if (accepted === undefined && waiting === undefined) return undefined
  return {
    source,
    tool: toolNameOf(source, pin),
    nativeName: pin.nativeName,
    state: stateOf(pin),
    version: accepted?.version,
    hash: accepted?.hash,
    acceptedBy: accepted?.by,
    acceptedAtMs: accepted?.atMs,
    waiting: waiting === undefined ? undefined : viewWaiting(waiting),
  }
}

export function toolNameOf(source: string, { local }: Pick<PinRecord, 'local'>): string {
  return `${toolkitOf(source)}.${local}`
}

export function hashOfWaiting({ definition }: WaitingChange): string {
  return definition?.hash ?? 'removed'
}

function stateOf(pin: PinRecord): PinState {
  if (!pin.isServed) return pin.accepted === undefined || pin.waiting !== undefined ? 'held' : 'removed'
  return suspensionOf(pin) === undefined ? 'served' : 'suspended'
}

function viewWaiting(waiting: WaitingChange): WaitingView {
  const { kind, class: found, reasons, renamedFrom, seenAtMs, rejected } = waiting
  const hash = hashOfWaiting(waiting)
  return { kind, class: found, reasons, hash, renamedFrom, seenAtMs, rejectedBy: rejected?.by }
}

export function diffPin(view: PinView, { accepted, waiting }: PinRecord): PinDiff {
  const after = waiting?.definition
  if (after === undefined) {
    const says = waiting === undefined ? [] : [{ where: 'tool', class: 'breaking', says: 'is gone' } as const]
    return { ...view, nextVersion: undefined, differences: says }
  }
  if (accepted === undefined) {
    const suspicions = suspicionsOf(after.offered).map(
      (found) => ({ ...found, class: 'suspicious' }) as const,
    )
    const { description, inputSchema, outputSchema, binding, entry } = after.offered
    const isSkill = entry?.kind === 'skill'
    const shown = { description, inputSchema, outputSchema, binding, ...(isSkill ? entry.definition : {}) }
    const whole = { where: 'tool', class: 'widening', says: 'is new', after: shown } as const
    return { ...view, nextVersion: FIRST_VERSION, differences: [...suspicions, whole] }
  }
  const differences = definitionDiff(accepted, after)
  return { ...view, nextVersion: nextVersion(accepted, after, differences), differences }
}

const REMOVED_IN_SUSPENSION = 'the upstream no longer offers it'
const SAYS = {
  wording: 'its text has changed upstream',
  widening: 'its definition has been widened upstream',
  breaking: 'its definition has changed upstream in a way that breaks callers',
  suspicious: 'its definition has changed upstream in a suspicious way',
} satisfies Record<ChangeClass, string>

/**
 * The reason why calls to a served tool are refused: a breaking or suspicious change of a tool with effects waits for a decision
 * (rule 32). A rejection does not end the suspension, because the upstream still differs from the accepted definition.
 */
export function suspensionOf({ isServed, accepted, waiting }: PinRecord): string | undefined {
  if (!isServed || accepted === undefined || waiting === undefined) return undefined
  if (!mustSuspend(waiting.class) || !isGuarded(accepted)) return undefined
  return waiting.kind === 'removal' ? REMOVED_IN_SUSPENSION : saysOf(accepted, waiting.class)
}

/** The reason why a call must not be sent to the tool that its program offers now, although the pins do not record the change yet. `current` is `undefined` if the tool is no longer offered. */
export function suspensionBy(accepted: OfferedBy, current: OfferedBy | undefined): string | undefined {
  if (!isGuarded(accepted)) return undefined
  if (current === undefined) return REMOVED_IN_SUSPENSION
  const found = worstClass(definitionDiff(accepted, current).map((difference) => difference.class))
  return mustSuspend(found) ? saysOf(accepted, found) : undefined
}

/** True if a breaking or suspicious change suspends calls. A skill only reads, but models follow its instructions. */
function isGuarded(definition: OfferedBy): boolean {
  return definition.offered.entry?.kind === 'skill' || hasEffects(tierOf(definition))
}

function saysOf({ offered }: OfferedBy, change: ChangeClass): string {
  return change === 'breaking' && offered.entry?.kind === 'skill'
    ? 'its files or its frontmatter have changed upstream'
    : SAYS[change]
}

/** A tool without a tier counts as `write`. */
function tierOf({ offered }: OfferedBy): { readonly safetyTier: SafetyTier } {
  return { safetyTier: offered.policy.safetyTier ?? 'write' }
}

const WEIGHT = { wording: 0, widening: 1, breaking: 2, suspicious: 3 } satisfies Record<ChangeClass, number>

/** The most serious of several classes; `wording` if there are none. */
export function worstClass(classes: readonly ChangeClass[]): ChangeClass {
  return classes.reduce<ChangeClass>(
    (worst, next) => (WEIGHT[next] > WEIGHT[worst] ? next : worst),
    'wording',
  )
}

/** True for changes that suspend a tool with effects until an operator decides (rule 32). */
function mustSuspend(change: ChangeClass): boolean {
  return WEIGHT[change] >= WEIGHT.breaking
}

export const FIRST_VERSION = '1.0.0'

/**
 * The version of an accepted change: major if it breaks, minor if it widens, patch for wording. A tool that comes back
 * unchanged keeps its version.
 */
export function nextVersion(
  accepted: AcceptedDefinition,
  after: StoredDefinition,
  differences = definitionDiff(accepted, after),
): string {
  if (accepted.hash === after.hash) return accepted.version
  const [major = 1, minor = 0, patch = 0] = accepted.version.split('.').map(Number)
  // A suspicious text breaks nothing by itself, so only the other changes count.
  const worst = worstClass(
    differences.map((difference) => difference.class).filter((change) => change !== 'suspicious'),
  )
  if (worst === 'breaking') return `${major + 1}.0.0`
  return worst === 'widening' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}
