import { Socket } from 'node:net'
import type { Client, QueryResult } from 'pg'
import { StoreError, type StoreErrorCode } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { Row, SqlValue } from '#kernel/store/engine'

/**
 * Connections to PostgreSQL, and its errors as `StoreError`s. Statements that are sent together go out in one write and are
 * answered in order. Every wait ends: a connection without an answer for too long is closed, and the outcome of its work is unknown.
 */

export const COMMIT = { text: 'COMMIT' }
export const ROLLBACK = { text: 'ROLLBACK' }

/** A named statement is planned once per connection. */
export interface Statement {
  readonly name?: string
  readonly text: string
  readonly values?: (SqlValue | SqlValue[])[]
}

export interface Result {
  readonly rows: readonly Row[]
  readonly changed: number
  /** `ROLLBACK` for the `COMMIT` of a failed transaction. */
  readonly command: string
}

/**
 * All rows are looked up by key, so a plan must not depend on the table's size at the time of planning: planned on empty tables,
 * PostgreSQL would scan all of `runs` for one row. The timeouts release the locks of a stopped process and end waits for locks.
 */
const SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
  idle_in_transaction_session_timeout: '2000',
  lock_timeout: '5000',
}

const START_SETTINGS = Object.entries(SETTINGS)
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ')
/** `SETTINGS` for one transaction. */
const LOCAL_SETTINGS = {
  text: `SELECT ${Object.entries(SETTINGS)
    .map(([name, value]) => `set_config('${name}', '${value}', true)`)
    .join(', ')}`,
}

/** The type `BIGINT`, which `pg` returns as text by default. All stored numbers are safe integers. */
const INT8 = 20

/** A connection without an answer for this long is lost. */
const MAX_SILENCE_MS = 30_000
const CONNECT_MS = 10_000

interface ConnectionOptions {
  readonly name?: string
  readonly maxSilenceMs?: number
  /** Called with messages from a channel that the connection listens to. */
  readonly onNotice?: (text: string) => void
  /** Whether the address is a pooler's, which may use another connection for each transaction; default: detected. */
  readonly isPooled?: boolean
}

export class Connection {
  readonly #client: Client
  readonly #socket: Socket
  readonly #watching: NodeJS.Timeout
  /** If true, settings, named statements and subscriptions last for one transaction only. */
  readonly isPooled: boolean
  #isLost = false
  /** Number of unanswered writes. `#aliveAtMs` is the time of the last answer, or else of the first unanswered write. */
  #unanswered = 0
  #aliveAtMs = 0

  private constructor(
    client: Client,
    socket: Socket,
    { maxSilenceMs = MAX_SILENCE_MS, isPooled = false }: ConnectionOptions,
  ) {
    this.#client = client
    this.isPooled = isPooled
    this.#socket = socket
    this.#watching = setInterval(() => this.#watch(maxSilenceMs), maxSilenceMs / 4).unref()
    const lose = () => {
      this.#isLost = true
      clearInterval(this.#watching)
    }
    client.on('error', lose).on('end', lose)
  }

  /** Loads the driver with the first connection, because a store in a file does not need it. */
  static async open(url: string, options: ConnectionOptions = {}): Promise<Connection> {
    try {
      return await Connection.#open(url, options)
    } catch (error) {
      // PgBouncer accepts no settings at startup.
      if (options.isPooled !== undefined || !isStartupRefused(error)) throw error
      return await Connection.#open(url, { ...options, isPooled: true })
    }
  }

  static async #open(url: string, options: ConnectionOptions): Promise<Connection> {
    const { name = 'collet', maxSilenceMs = MAX_SILENCE_MS, isPooled = false } = options
    const { Client, types } = await import('pg')
    const socket = new Socket()
    const client = new Client({
      connectionString: url,
      application_name: name,
      options: isPooled ? undefined : START_SETTINGS,
      connectionTimeoutMillis: Math.min(CONNECT_MS, maxSilenceMs),
      pipeline: true,
      stream: () => socket,
      types: {
        getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)),
      },
    })
    const connection = new Connection(client, socket, options)
    client.on('notification', ({ payload = '' }) => options.onNotice?.(payload))
    try {
      await client.connect()
    } catch (error) {
      connection.#end()
      const message = `PostgreSQL cannot be reached: ${messageOf(error)}`
      throw new StoreError(failureOf(error)?.code ?? 'full', message, { cause: error })
    }
    return connection
  }

  /** Whether the connection no longer works. Statements in progress may or may not have taken effect. */
  get isLost(): boolean {
    return this.#isLost
  }

  begin(text = 'BEGIN'): readonly Statement[] {
    return this.isPooled ? [{ text }, LOCAL_SETTINGS] : [{ text }]
  }

  async one(statement: Statement): Promise<Result> {
    const [result] = await this.send([statement])
    if (result === undefined) throw new Error('a statement without a result')
    return result
  }

  /** Sends every statement, even after one that fails; reports the first failure. */
  send(statements: readonly Statement[]): Promise<readonly Result[]> {
    return new Promise((resolve, reject) => {
      const results: Result[] = []
      let waiting = statements.length
      let failure: Error | undefined
      if (this.#unanswered === 0) this.#aliveAtMs = performance.now()
      this.#unanswered += 1
      this.#socket.cork()
      for (const [index, statement] of statements.entries()) {
        const { text, values } = statement
        const query = this.isPooled ? { text, ...(values === undefined ? {} : { values }) } : statement
        this.#client.query<Row>(query, (error: Error | null, result: QueryResult<Row>) => {
          if (error) failure ??= this.#isLost ? new ConnectionLost(error) : error
          else results[index] = { rows: result.rows, changed: result.rowCount ?? 0, command: result.command }
          waiting -= 1
          if (waiting > 0) return
          this.#unanswered -= 1
          this.#aliveAtMs = performance.now()
          if (failure === undefined) resolve(results)
          else reject(failure)
        })
      }
      this.#socket.uncork()
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#watching)
    await this.#client.end()
  }

  /** Ends a silent connection, so that waiting statements fail. */
  #watch(maxSilenceMs: number): void {
    if (this.#unanswered > 0 && performance.now() - this.#aliveAtMs > maxSilenceMs) this.#end()
  }

  #end(): void {
    this.#isLost = true
    clearInterval(this.#watching)
    this.#socket.destroy()
  }
}

/** Keeps one connection; a lost connection is replaced when it is next needed. */
export class Reconnector {
  readonly #open: () => Promise<Connection>
  #opened: Promise<Connection> | undefined
  #connection: Connection | undefined

  constructor(open: () => Promise<Connection>) {
    this.#open = open
  }

  current(): MaybePromise<Connection> {
    if (this.#connection !== undefined && !this.#connection.isLost) return this.#connection
    this.#opened ??= this.#connect()
    return this.#opened
  }

  async close(): Promise<void> {
    await this.#opened?.catch(() => undefined)
    await this.#connection?.close()
  }

  async #connect(): Promise<Connection> {
    try {
      this.#connection = await this.#open()
      return this.#connection
    } finally {
      this.#opened = undefined
    }
  }
}

function isStartupRefused(error: unknown): boolean {
  return (
    error instanceof StoreError &&
    stateOf(error.cause) === '08P01' &&
    error.message.includes('startup parameter')
  )
}

/** The SQLSTATE of an error from PostgreSQL. */
function stateOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'

  constructor(cause: Error) {
    super(`the connection to PostgreSQL was lost: ${cause.message}`, { cause })
  }
}

/** Whether a change can be tried again: another process held a lock, or the connection was lost before anything was committed. */
export function isBusy(error: unknown): boolean {
  return error instanceof ConnectionLost || /^(40001|40P01|55P03)$/.test(stateOf(error) ?? '')
}

/**
 * Whether the writer's lease has expired: the group's writer is the result of a query for a valid lease, which found none. It is an
 * error so that the commit, which is sent with the group, undoes everything.
 */
export function isFenced(error: unknown): boolean {
  return (
    stateOf(error) === '23502' && error instanceof Error && 'column' in error && error.column === 'writer'
  )
}

/** Whether another process has just done the same: the table already exists, is gone or is attached. */
export function isDoneAlready(error: unknown): boolean {
  return /^(42P01|42P07|42809)$/.test(stateOf(error) ?? '')
}

export function lacksPermission(error: unknown): boolean {
  return stateOf(error) === '42501'
}

/** Whether the error concerns the whole store, so that trying the changes one by one is pointless. */
export function isStoreWide(error: unknown): boolean {
  return error instanceof StoreError || failureOf(error) !== undefined
}

function failureOf(error: unknown): (typeof FAILURES)[number] | undefined {
  const state = stateOf(error)
  return state === undefined ? undefined : FAILURES.find(({ states }) => states.test(state))
}

/** Failures by SQLSTATE. Any other state concerns a statement, not the database. */
const FAILURES: readonly { readonly states: RegExp; readonly code: StoreErrorCode; readonly why: string }[] =
  [
    {
      states: /^(25006|57P03)$/,
      code: 'full',
      why: 'PostgreSQL accepts no changes now, because it is a standby or still starting',
    },
    {
      states: /^57014$/,
      code: 'full',
      why: 'PostgreSQL cancelled a statement: on request, or because statement_timeout is too short',
    },
    { states: /^53/, code: 'full', why: 'PostgreSQL is out of disk, memory or connections' },
    { states: /^(58|XX)/, code: 'full', why: 'PostgreSQL reports damage or a disk error' },
    {
      states: /^(28|3D|42501)/,
      code: 'unreadable',
      why: 'PostgreSQL refuses this user or database; check the address of the store',
    },
    { states: /^(08|57P|25P03|E[A-Z]+$)/, code: 'full', why: 'PostgreSQL cannot be reached' },
  ]

/** Any error as a `StoreError` with an explanation. */
export function storeErrorOf(error: unknown, doing: string): StoreError {
  if (error instanceof StoreError)
    return new StoreError(error.code, `${doing}: ${error.message}`, { cause: error })
  const known = failureOf(error)
  const why = known === undefined ? messageOf(error) : `${known.why} (${messageOf(error)})`
  return new StoreError(known?.code ?? 'not_written', `${doing}: ${why}`, { cause: error })
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
