import type { ChangeClass, PinRecord, WaitingChange } from '#core/ports/pin-store'
import { toolkitOf } from '#core/sources/import-names'
import { raiseVersion } from './change-class.ts'
import { definitionDiff } from './definition-diff.ts'
import type { Difference } from './schema-diff.ts'
import { suspensionOf } from './suspension.ts'
import { suspicionsOf } from './suspicions.ts'

/** `held`: waits for its first yes. `removed`: an operator agreed that it is gone. */
export type PinState = 'served' | 'suspended' | 'held' | 'removed'

/** A pinned tool as an operator sees it. */
export interface PinView {
  readonly source: string
  /** `Toolkit.Name`, which names it to commands. */
  readonly tool: string
  readonly nativeName: string
  readonly state: PinState
  readonly version: string | undefined
  readonly hash: string | undefined
  readonly acceptedBy: string | undefined
  readonly acceptedAtMs: number | undefined
  readonly waiting: WaitingView | undefined
}

export interface WaitingView {
  readonly kind: WaitingChange['kind']
  readonly class: ChangeClass
  readonly reasons: readonly string[]
  readonly hash: string
  readonly renamedFrom: string | undefined
  readonly seenAtMs: number
  readonly rejectedBy: string | undefined
}

/** The same, with everything that a yes would change. */
export interface PinDiff extends PinView {
  /** Version after a yes; `undefined` when the tool would go. */
  readonly nextVersion: string | undefined
  readonly differences: readonly Difference[]
}

export const REMOVED = 'removed'

/** `undefined` for a name that was only kept: a tool that went before anybody decided. */
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
  return definition?.hash ?? REMOVED
}

function stateOf(pin: PinRecord): PinState {
  if (!pin.isServed) return pin.accepted === undefined || pin.waiting !== undefined ? 'held' : 'removed'
  return suspensionOf(pin) === undefined ? 'served' : 'suspended'
}

function viewWaiting(waiting: WaitingChange): WaitingView {
  return {
    kind: waiting.kind,
    class: waiting.class,
    reasons: waiting.reasons,
    hash: hashOfWaiting(waiting),
    renamedFrom: waiting.renamedFrom,
    seenAtMs: waiting.seenAtMs,
    rejectedBy: waiting.rejected?.by,
  }
}

export function diffPin(view: PinView, { accepted, waiting }: PinRecord): PinDiff {
  const after = waiting?.definition
  if (after === undefined) {
    const says = waiting === undefined ? [] : [{ where: 'tool', class: 'breaking', says: 'is gone' } as const]
    return { ...view, nextVersion: undefined, differences: says }
  }
  if (accepted === undefined) {
    const { offered } = after
    const suspicions = suspicionsOf(offered).map((found) => ({ ...found, class: 'suspicious' }) as const)
    const { description, inputSchema, outputSchema, binding } = offered
    const shown = { description, inputSchema, outputSchema, binding }
    const whole = { where: 'tool', class: 'widening', says: 'is new', after: shown } as const
    return { ...view, nextVersion: '1.0.0', differences: [...suspicions, whole] }
  }
  const differences = definitionDiff(accepted, after)
  const isSame = accepted.hash === after.hash
  const raised = raiseVersion(
    accepted.version,
    differences.map((difference) => difference.class),
  )
  return { ...view, nextVersion: isSame ? accepted.version : raised, differences }
}
