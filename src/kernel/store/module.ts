import type { CommitGroup, Row, Steps } from './engine.ts'
import type { ResealableRows } from './key-ring.ts'
import { guardedQueries, resealingOf } from './row-mac.ts'

/**
 * A store is opened with modules. A module owns the tables and statements of one subject. The kernel's modules (calls, runs,
 * approvals, the journal) are always present; the application passes the others, and each adds its methods to the store.
 * The kernel imports none of them: retention, key changes and verification reach their rows through this interface.
 */
export interface StoreModule {
  readonly name: string
  /** `CREATE TABLE` and `CREATE INDEX` statements that SQLite and PostgreSQL both understand. */
  readonly tables?: string
  /** Statements by name. Names are unique across the modules of a store; parameters are positional. */
  readonly queries?: Readonly<Record<string, string>>
  /** Tables whose rows have a MAC. */
  readonly guarded?: readonly GuardedTable[]
  /** Other rows that are sealed again when `COLLET_KEY` changes. */
  readonly resealing?: readonly ResealableRows[]
  /** Deletes rows that are past retention, at most about `limit` of them; returns how many were deleted. */
  forget?(retention: PurgeStep): Steps<number>
}

/** How long results and the journal are kept (rule 13). */
export interface RetentionPolicy {
  readonly resultsMs: number
  readonly journalMs: number
}

export interface PurgeStep {
  readonly group: CommitGroup
  readonly nowMs: number
  readonly policy: RetentionPolicy
  readonly limit: number
}

/**
 * A table whose rows decide who may do what, or record what was approved. Each row has a MAC over `columns`, so that a process
 * that can write to the database but does not have the key cannot change a decision.
 */
export interface GuardedTable {
  readonly table: string
  /** Label for operators; default: the name of the table. */
  readonly label?: string
  readonly columns: readonly string[]
  /** Text columns that identify a row. */
  readonly names: readonly string[]
  /** Statements whose rows are checked as the engine reads them. */
  readonly checkedReads: readonly string[]
  /** Seals the contents of a row under the current keys, before it gets its MAC. */
  resealContents?(group: CommitGroup, row: Row): Steps<void>
  /** The final state that is stored in a row, as the journal names it. */
  endOf?(row: Row): string | undefined
  /** The columns that identify the row that a journal event ended for good, and the state that the row must have afterwards. */
  endedBy?(event: EventFacts): { readonly row: Row; readonly state: string } | undefined
}

/** Fields of journal events that name guarded rows. */
export interface EventFacts {
  readonly type: string
  readonly approval?: string
  readonly key?: string
  readonly rule?: string
  readonly tenant?: string
  readonly principal?: string
}

/** The modules of one store, combined. */
export interface StoreDefinition {
  readonly queries: Readonly<Record<string, string>>
  /** Statements that lead from an empty database to the current tables, one entry per version. */
  readonly migrations: readonly string[]
  readonly guarded: readonly GuardedTable[]
  readonly resealing: readonly ResealableRows[]
  readonly forgetting: readonly NonNullable<StoreModule['forget']>[]
}

/** Combines modules. Two statements with the same name are a programming error. */
export function defineStore(modules: readonly StoreModule[]): StoreDefinition {
  const queries = new Map<string, string>()
  for (const module of modules) {
    const forGuarded = module.guarded?.map(guardedQueries) ?? []
    for (const [name, text] of [module.queries ?? {}, ...forGuarded].flatMap(Object.entries<string>)) {
      if (queries.has(name)) throw new Error(`${module.name} defines the statement ${name} a second time`)
      queries.set(name, text)
    }
  }
  return {
    queries: Object.fromEntries(queries),
    migrations: [modules.map(({ tables = '' }) => tables).join('')],
    guarded: modules.flatMap(({ guarded = [] }) => guarded),
    resealing: modules.flatMap(({ guarded = [], resealing = [] }) => [
      ...guarded.map(resealingOf),
      ...resealing,
    ]),
    forgetting: modules.flatMap(({ forget }) => (forget === undefined ? [] : [forget])),
  }
}
