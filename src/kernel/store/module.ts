import type { CommitGroup, Row, Steps } from './engine.ts'
import type { Resealing } from './key-ring.ts'
import { guardedQueries, resealingOf } from './row-mac.ts'

/**
 * A store is opened with modules. A module owns the tables and statements of one subject. The kernel's modules (calls, runs,
 * approvals, the journal) are always there; the application names the others, and each adds its methods to the store.
 * The kernel imports none of them: retention, key changes and verification reach their rows through this interface.
 */
export interface StoreModule {
  readonly name: string
  /** `CREATE TABLE` and `CREATE INDEX` statements that SQLite and PostgreSQL both understand. */
  readonly tables?: string
  /** Statements by name. Names are unique across the modules of a store; parameters are positional. */
  readonly queries?: Readonly<Record<string, string>>
  /** Tables whose rows carry a MAC. */
  readonly guarded?: readonly GuardedTable[]
  /** Other rows that a change of `COLLET_KEY` seals again. */
  readonly resealing?: readonly Resealing[]
  /** Deletes what retention no longer keeps, at most about `limit` rows; returns how many rows were deleted. */
  forget?(retention: Forgetting): Steps<number>
}

/** How long results and the journal are kept (rule 13). */
export interface RetentionPolicy {
  readonly resultsMs: number
  readonly journalMs: number
}

export interface Forgetting {
  readonly group: CommitGroup
  readonly nowMs: number
  readonly policy: RetentionPolicy
  readonly limit: number
}

/**
 * A table whose rows decide something: who may do what, and what was approved. Each row carries a MAC over `columns`, so that
 * a process that can write to the database without the key cannot change a decision.
 */
export interface GuardedTable {
  readonly table: string
  /** For operators; default: the name of the table. */
  readonly label?: string
  readonly columns: readonly string[]
  /** Text columns that identify a row. */
  readonly names: readonly string[]
  /** Statements whose rows are checked as the engine reads them. */
  readonly checkedReads: readonly string[]
  /** Seals the contents of a row under the current keys, before it gets its MAC. */
  resealContents?(group: CommitGroup, row: Row): Steps<void>
  /** The final state that a row says it has, in the words of the journal. */
  endOf?(row: Row): string | undefined
  /** The row that a journal event ended for good, by its names, and the state it must have since. */
  endedBy?(event: EventFacts): { readonly row: Row; readonly state: string } | undefined
}

/** Fields of journal events that name guarded rows. */
export interface EventFacts {
  readonly type: string
  readonly approval?: string
  readonly key?: string
  readonly tenant?: string
  readonly principal?: string
}

/** The modules of one store, combined. */
export interface StoreDefinition {
  readonly queries: Readonly<Record<string, string>>
  /** From an empty database to the current tables, one step per version. */
  readonly migrations: readonly string[]
  readonly guarded: readonly GuardedTable[]
  readonly resealing: readonly Resealing[]
  readonly forgetting: readonly NonNullable<StoreModule['forget']>[]
}

/** Combines modules. Two statements with one name are a programming error. */
export function defineStore(modules: readonly StoreModule[]): StoreDefinition {
  const queries = new Map<string, string>()
  for (const module of modules) {
    const ofGuarded = module.guarded?.map(guardedQueries) ?? []
    for (const [name, text] of [module.queries ?? {}, ...ofGuarded].flatMap(Object.entries<string>)) {
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
