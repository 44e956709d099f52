import { nextRevision, type PinnedSource, type PinRecord, type PinWrite } from '#core/ports/pin-store'
import { servedHash } from './served-hash.ts'

/** What is known after our own write: it was made on this revision, so nothing else has changed. */
export function withWritten(known: PinnedSource, change: PinWrite): PinnedSource {
  const rows = new Map([...known.pins, ...change.pins].map((pin) => [pin.nativeName, pin]))
  return { ...known, revision: nextRevision(change), pins: [...rows.values()].sort(byName) }
}

/**
 * The same rows, with definitions that have not changed as the objects they were: what was made of them, which is
 * costly for thousands of tools, is found by them.
 */
export function keepKnown(read: PinnedSource, known: PinnedSource | undefined): PinnedSource {
  if (known === undefined) return read
  const before = new Map(known.pins.map((pin) => [pin.nativeName, pin]))
  return { ...read, pins: read.pins.map((pin) => keepDefinition(pin, before.get(pin.nativeName))) }
}

function keepDefinition(pin: PinRecord, known: PinRecord | undefined): PinRecord {
  if (pin.accepted === undefined || known?.accepted === undefined) return pin
  const isSame =
    acceptedHash(pin) === acceptedHash(known) &&
    pin.accepted.by === known.accepted.by &&
    pin.accepted.atMs === known.accepted.atMs
  return isSame ? { ...pin, accepted: known.accepted } : pin
}

/** Hash, version and policy of what was accepted, whether it is served or not. */
function acceptedHash({ accepted, ...pin }: PinRecord): string {
  return servedHash({ ...pin, accepted, isServed: true, waiting: undefined })
}

function byName(left: PinRecord, right: PinRecord): number {
  return left.nativeName < right.nativeName ? -1 : 1
}
