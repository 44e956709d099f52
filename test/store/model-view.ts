import type { RunEvent } from '#kernel/run/events'

/** Without the one member that must differ between two stores: the name of the writer. */
export function shown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value !== 'object' || value === null) return value
  if ('writer' in value && 'fingerprint' in value) return shownRecord({ ...value })
  const members = Object.entries(value).filter(([name]) => name !== 'deadWriter' && name !== 'writer')
  return Object.fromEntries(members.map(([name, member]) => [name, shown(member)]))
}

const FORGOTTEN = { callId: '', traceId: '', toolId: '', argsHash: '', userId: undefined, runId: undefined }

/** A tombstone keeps key, fingerprint, state and time; the caller's text is deleted with the journal (rule 13). */
function shownRecord({ writer: _, cancelRequested: __, ...rest }: Record<string, unknown>): object {
  return rest.expired === true ? { ...rest, ...FORGOTTEN } : rest
}

/** Events of a run, without the labels of calls that `isForgotten` says the journal no longer covers. */
export function shownEvents(
  events: readonly RunEvent[],
  isForgotten: (record: string, atMs: number) => boolean,
): readonly unknown[] {
  return events.map((event) =>
    'call' in event && isForgotten(event.record, event.atMs) ? { ...event, call: 'forgotten' } : event,
  )
}
