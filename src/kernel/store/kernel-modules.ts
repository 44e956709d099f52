import { GUARDED } from '#kernel/store/calls/approval-changes'
import {
  queries as approvalQueries,
  resealing as approvalResealing,
  tables as approvalTables,
} from '#kernel/store/calls/approvals'
import { queries as callChangeQueries } from '#kernel/store/calls/call-changes'
import { queries as callQueries, tables as callTables } from '#kernel/store/calls/calls'
import { queries as recoveryQueries } from '#kernel/store/calls/recovery'
import { queries as runQueries, tables as runTables } from '#kernel/store/calls/runs'
import {
  queries as journalQueries,
  resealing as journalResealing,
  tables as journalTables,
} from './journal.ts'
import { queries as ringQueries, tables as ringTables } from './key-ring.ts'
import type { StoreModule } from './module.ts'
import { queries as macQueries } from './row-mac.ts'
import { queries as metaQueries, tables as metaTables } from './rows.ts'

/**
 * The modules that every store has: everything needed to record, approve, recover and prove a durable call.
 * Modules of the kernel use each other's statements, so their names are one type.
 */

const QUERIES = {
  ...metaQueries,
  ...macQueries,
  ...ringQueries,
  ...journalQueries,
  ...callQueries,
  ...callChangeQueries,
  ...runQueries,
  ...approvalQueries,
  ...recoveryQueries,
} as const

export type QueryName = keyof typeof QUERIES

export const KERNEL_MODULES: readonly StoreModule[] = [
  { name: 'meta', tables: metaTables, queries: { ...metaQueries, ...macQueries } },
  { name: 'keys of the store', tables: ringTables, queries: ringQueries },
  {
    name: 'journal',
    tables: journalTables,
    queries: journalQueries,
    resealing: journalResealing,
  },
  { name: 'calls', tables: callTables, queries: { ...callQueries, ...callChangeQueries } },
  { name: 'runs', tables: runTables, queries: { ...runQueries, ...recoveryQueries } },
  {
    name: 'approvals',
    tables: approvalTables,
    queries: approvalQueries,
    guarded: Object.values(GUARDED),
    resealing: approvalResealing,
  },
]
