/**
 * Operations that export rows as a file: the journal, calls, usage, approvals and denials. Each has the filter and the scope of the list
 * that shows the same rows, and is journaled before its first row is sent.
 */
import { z } from 'zod'
import { CALL_FILTER } from './calls.ts'
import { JOURNAL_FILTER } from './journal.ts'
import { operation, timeInQuery } from './operation.ts'

export const EXPORT_FORMATS = ['csv', 'jsonl'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

const format = () => ({
  format: z
    .enum(EXPORT_FORMATS)
    .default('csv')
    .describe(
      '`csv`: RFC 4180 with a header line, in UTF-8; cells that a spreadsheet would run as a formula begin with an apostrophe. `jsonl`: one JSON object in each line.',
    ),
})
const media = ['text/csv', 'application/jsonl'] as const
const span = () => ({ since: timeInQuery(), until: timeInQuery() })
const JOURNALED =
  'The export is recorded in the journal with its filter. The rows are streamed; an export that fails ends with a broken connection, never with a complete file.'

export const EXPORT_JOURNAL = operation({
  route: 'GET /admin/export/journal',
  scope: 'audit:read',
  summary: 'Exports events of the journal, newest first.',
  description: JOURNALED,
  query: () => JOURNAL_FILTER().extend(format()),
  media,
})

export const EXPORT_CALLS = operation({
  route: 'GET /admin/export/calls',
  scope: 'admin:calls',
  summary: 'Exports calls, newest first, without inputs and outcomes.',
  description: JOURNALED,
  query: () => CALL_FILTER().extend(format()),
  media,
})

export const EXPORT_USAGE = operation({
  route: 'GET /admin/export/usage',
  scope: 'admin:calls',
  summary: 'Exports calls, errors, time and cost of tenants, principals and tools.',
  description: JOURNALED,
  query: () => z.object({ ...span(), tenant: z.string().optional(), ...format() }),
  media,
})

export const EXPORT_APPROVALS = operation({
  route: 'GET /admin/export/approvals',
  summary: 'Exports approvals with their decisions, newest first, without arguments.',
  description: `Needs the start token of the server, or a credential with the scope \`approvals:read\` or \`approvals:respond\`. ${JOURNALED}`,
  query: () => z.object({ state: z.string().optional(), ...span(), ...format() }),
  media,
})

export const EXPORT_DENIALS = operation({
  route: 'GET /admin/export/denials',
  scope: 'audit:read',
  summary: 'Exports denied requests, oldest first.',
  description: JOURNALED,
  query: () => z.object({ principal: z.string().optional(), ...span(), ...format() }),
  media,
})

/** The exports by the name of what they contain. */
export const EXPORTS = {
  journal: EXPORT_JOURNAL,
  calls: EXPORT_CALLS,
  usage: EXPORT_USAGE,
  approvals: EXPORT_APPROVALS,
  denials: EXPORT_DENIALS,
} as const
export type Exported = keyof typeof EXPORTS
