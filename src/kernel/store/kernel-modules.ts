import { GUARDED } from '#kernel/store/calls/approval-changes'
import * as approvals from '#kernel/store/calls/approvals'
import * as callChanges from '#kernel/store/calls/call-changes'
import * as calls from '#kernel/store/calls/calls'
import * as recovery from '#kernel/store/calls/recovery'
import * as runs from '#kernel/store/calls/runs'
import * as journal from './journal.ts'
import * as keyRing from './key-ring.ts'
import type { StoreModule } from './module.ts'
import * as rowMac from './row-mac.ts'
import * as rows from './rows.ts'

/**
 * The modules that every store has: everything needed to record, approve, recover and verify a durable call.
 * The kernel's modules run each other's queries, so `QueryName` covers the queries of all of them.
 */

const QUERIES = {
  ...rows.queries,
  ...rowMac.queries,
  ...keyRing.queries,
  ...journal.queries,
  ...calls.queries,
  ...callChanges.queries,
  ...runs.queries,
  ...approvals.queries,
  ...recovery.queries,
} as const

export type QueryName = keyof typeof QUERIES

export const KERNEL_MODULES: readonly StoreModule[] = [
  { name: 'meta', tables: rows.tables, queries: { ...rows.queries, ...rowMac.queries } },
  { name: 'keys of the store', tables: keyRing.tables, queries: keyRing.queries },
  { name: 'journal', tables: journal.tables, queries: journal.queries, resealing: journal.resealing },
  { name: 'calls', tables: calls.tables, queries: { ...calls.queries, ...callChanges.queries } },
  { name: 'runs', tables: runs.tables, queries: { ...runs.queries, ...recovery.queries } },
  {
    name: 'approvals',
    tables: approvals.tables,
    queries: approvals.queries,
    guarded: Object.values(GUARDED),
  },
]
