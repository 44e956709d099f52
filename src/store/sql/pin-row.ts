import { StoreError } from '#core/errors'
import type { AcceptedDefinition, KeptDefinition, PinRecord, WaitingChange } from '#core/ports/import-store'
import { integer, optionalText, type Row, text } from './row.ts'

export function pinFromRow(row: Row): PinRecord {
  return {
    nativeName: text(row, 'native_name'),
    local: text(row, 'local'),
    accepted: read(optionalText(row, 'accepted'), isAccepted),
    isServed: integer(row, 'served') === 1,
    waiting: read(optionalText(row, 'waiting'), isWaiting),
  }
}

/** What was not written by us is damage, never a definition. */
function read<Value>(json: string | undefined, is: (value: unknown) => value is Value): Value | undefined {
  if (json === undefined) return undefined
  const value: unknown = JSON.parse(json)
  if (is(value)) return value
  throw new StoreError('unreadable', 'the database holds a pinned definition that cannot be read')
}

function isAccepted(value: unknown): value is AcceptedDefinition {
  return isKept(value) && 'version' in value && typeof value.version === 'string'
}

function isWaiting(value: unknown): value is WaitingChange {
  if (!isRecord(value) || !('kind' in value) || !('class' in value)) return false
  return !('definition' in value) || isKept(value.definition)
}

function isKept(value: unknown): value is KeptDefinition {
  if (!isRecord(value) || !('hash' in value) || typeof value.hash !== 'string') return false
  if (!('identity' in value) || !isRecord(value.identity)) return false
  if (!('offered' in value) || !isRecord(value.offered)) return false
  const { offered } = value
  return 'nativeName' in offered && 'inputSchema' in offered && 'binding' in offered && 'policy' in offered
}

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
