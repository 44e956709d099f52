import type { AcceptedDefinition, PinRecord } from '#core/ports/pin-store'
import { raiseVersion } from './change-class.ts'
import { definitionDiff } from './definition-diff.ts'
import { FIRST_VERSION } from './judge-discovery.ts'

/** Who decides, and when. */
export interface PinDecision {
  readonly by: string
  readonly atMs: number
}

/** The row once what waits is let in: a new version for a new definition, and no more service for a removal. */
export function acceptWaiting(pin: PinRecord, { by, atMs }: PinDecision): PinRecord {
  const { waiting, accepted } = pin
  if (waiting === undefined) return pin
  const { definition } = waiting
  if (definition === undefined) return { ...pin, isServed: false, waiting: undefined }
  const version = accepted === undefined ? FIRST_VERSION : nextVersion(accepted, definition)
  return { ...pin, accepted: { ...definition, version, by, atMs }, isServed: true, waiting: undefined }
}

/** What is in force stays so; the no holds for as long as the upstream offers exactly this. */
export function rejectWaiting(pin: PinRecord, { by, atMs }: PinDecision): PinRecord {
  const { waiting } = pin
  return waiting === undefined ? pin : { ...pin, waiting: { ...waiting, rejected: { by, atMs } } }
}

/** A tool that comes back as it went is the version it was. */
function nextVersion(
  accepted: AcceptedDefinition,
  definition: Omit<AcceptedDefinition, 'version' | 'by' | 'atMs'>,
): string {
  if (accepted.hash === definition.hash) return accepted.version
  const differences = definitionDiff(accepted, definition)
  return raiseVersion(
    accepted.version,
    differences.map((difference) => difference.class),
  )
}
