import type { NewSource, SourceRemoval } from '#core/ports/source-store'
import type { SourceChanged } from './journal-event.ts'

export function sourcePutEvent(
  { key, options, addedBy, addedMs }: NewSource,
  result: 'added' | 'replaced',
): SourceChanged {
  const kind = options.type
  return {
    type: `source.${result}`,
    at: addedMs,
    source: key,
    ...(typeof kind === 'string' ? { sourceType: kind } : {}),
    by: addedBy,
  }
}

export function sourceRemovedEvent({ key, by, atMs }: SourceRemoval): SourceChanged {
  return { type: 'source.removed', at: atMs, source: key, by }
}
