import type { ChangeClass, PinRecord, WaitingChange } from '#core/ports/pin-store'
import type { SafetyTier } from '#core/tool'
import { hasEffects } from '#core/tool'
import { isGrave, worstClass } from './change-class.ts'
import { definitionDiff, type OfferedBy } from './definition-diff.ts'

const UNCLASSIFIED: SafetyTier = 'write'

const REMOVED = 'the upstream no longer offers it'
const SAYS = {
  wording: 'its text has changed upstream',
  widening: 'its definition has been widened upstream',
  breaking: 'its definition has changed upstream in a way that breaks callers',
  suspicious: 'its definition has changed upstream in a suspicious way',
} satisfies Record<ChangeClass, string>

/**
 * Why a served tool is not called for now: a grave change of a tool with effects waits (rule 32), also after a no,
 * because the upstream still is another one than was accepted.
 */
export function suspensionOf({ isServed, accepted, waiting }: PinRecord): string | undefined {
  if (!isServed || accepted === undefined || waiting === undefined || !isGrave(waiting.class))
    return undefined
  const { safetyTier = UNCLASSIFIED } = accepted.offered.policy
  return hasEffects({ safetyTier }) ? describeChange(waiting) : undefined
}

/** The same for what a call meets before any pin tells of it: why it must not go there. `undefined` = not offered. */
export function suspensionBy(accepted: OfferedBy, met: OfferedBy | undefined): string | undefined {
  const { safetyTier = UNCLASSIFIED } = accepted.offered.policy
  if (!hasEffects({ safetyTier })) return undefined
  if (met === undefined) return REMOVED
  const found = worstClass(definitionDiff(accepted, met).map((difference) => difference.class))
  return isGrave(found) ? SAYS[found] : undefined
}

export function describeChange({ kind, class: found }: WaitingChange): string {
  return kind === 'removal' ? REMOVED : SAYS[found]
}
