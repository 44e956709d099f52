import type { PinRecord } from '#core/ports/pin-store'
import { suspensionOf } from './suspension.ts'

/** Tells apart what agents see and what calls do; the same for rows that differ in nothing of that. */
export function servedHash(pin: PinRecord | undefined): string {
  if (pin?.accepted === undefined || !pin.isServed) return ''
  const { hash, version, offered } = pin.accepted
  return JSON.stringify([hash, version, offered.policy, suspensionOf(pin) ?? null])
}
