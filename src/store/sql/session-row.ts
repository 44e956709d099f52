import type { SessionRecord } from '#core/ports/store'
import { type Row, text, word } from './row.ts'

const STATES = ['open', 'closing', 'closed'] as const
const OUTCOMES = ['completed', 'failed', 'cancelled'] as const

export function sessionFromRow(row: Row): SessionRecord {
  return {
    tenant: text(row, 'tenant'),
    sessionId: text(row, 'id'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    toolId: text(row, 'tool_id'),
    run: text(row, 'run'),
    state: word(row, 'state', STATES),
    writer: text(row, 'writer_id'),
    outcome: row.outcome === null ? undefined : word(row, 'outcome', OUTCOMES),
  }
}
