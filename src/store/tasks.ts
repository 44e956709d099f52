import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, optionalBytes, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'

/**
 * Tasks of MCP clients: calls whose state and result a client fetches later, by call id. A row contains the request, so that any
 * process can continue the call, and the outcome of a call that ended without a record. The call itself is in the tables of calls.
 * Requests contain callers' texts, so they are sealed (rule 15). A row belongs to one principal.
 */

const { get, all, write } = statements<keyof typeof queries>()

export interface TaskAddress {
  readonly tenant: string
  readonly principal: string
  readonly callId: string
}

export interface NewTask extends TaskAddress {
  /** Sealed. */
  readonly request: JsonObject
  readonly atMs: number
}

export interface TaskRecord extends TaskAddress {
  readonly request: JsonObject
  readonly createdAtMs: number
  /** The outcome of a call that ended without a record, because it was refused or cancelled. */
  readonly refusal: JsonObject | undefined
}

/** The end of a task; `refusal` is its outcome if the call was not recorded. */
interface TaskEnd {
  readonly refusal?: JsonObject | undefined
  readonly atMs: number
}

export function openTasks({ exclusive, read, keys }: StoreContext) {
  const namesOf = ({ tenant, principal, callId }: TaskAddress) =>
    [tenant, principal, keys.digest(callId)] as const
  const order = (address: TaskAddress) => `tasks ${keys.digest(address.callId)}`
  const found = (row: Row | undefined) => (row === undefined ? undefined : recordOf(keys, row))
  return {
    /** Does nothing if the call already has a task. */
    begin: exclusive(order, function* (group: CommitGroup, task: NewTask): Steps<void> {
      const [tenant, principal, call] = namesOf(task)
      const request = sealText(group.keys, { callId: task.callId, request: task.request }, [
        'request',
        tenant,
        call,
      ])
      yield* write('beginTask', tenant, principal, call, request, task.atMs)
    }),
    find: read((address: TaskAddress) => mapped(get('findTask', ...namesOf(address)), found)),
    /** A principal's tasks, newest first; after the task `before`, if one is named. */
    list: read(function* (
      { tenant, principal }: Pick<TaskAddress, 'tenant' | 'principal'>,
      { before, limit }: { readonly before?: string | undefined; readonly limit: number },
    ): Steps<readonly TaskRecord[]> {
      const last =
        before === undefined ? undefined : yield* get('findTask', tenant, principal, keys.digest(before))
      const position = last === undefined ? Number.MAX_SAFE_INTEGER : integer(last, 'no')
      const rows = yield* all('listTasks', tenant, principal, position, limit)
      return rows.map((row) => recordOf(keys, row))
    }),
    /** Retention counts from the first end. A later end does not change it. */
    end: exclusive(
      order,
      function* (group: CommitGroup, address: TaskAddress, { refusal, atMs }: TaskEnd): Steps<void> {
        const names = namesOf(address)
        const [tenant, , call] = names
        const sealed = refusal === undefined ? null : sealText(group.keys, refusal, ['refusal', tenant, call])
        yield* write('endTask', sealed, atMs, ...names)
      },
    ),
  }
}

export type TaskStore = ReturnType<typeof openTasks>

function recordOf(keys: KeyRing, row: Row): TaskRecord {
  const tenant = text(row, 'tenant')
  const call = text(row, 'call')
  const { callId, request } = openText(keys, bytes(row, 'request'), ['request', tenant, call])
  const refusal = optionalBytes(row, 'refusal')
  return {
    tenant,
    principal: text(row, 'principal'),
    callId: typeof callId === 'string' ? callId : '',
    request: isJsonObject(request) ? request : {},
    createdAtMs: integer(row, 'created_at'),
    refusal: refusal === null ? undefined : openText(keys, refusal, ['refusal', tenant, call]),
  }
}

function sealText(keys: KeyRing, value: JsonObject, context: readonly string[]): Uint8Array {
  return keys.seal('requests', Buffer.from(JSON.stringify(value)), contextOf(context))
}

function openText(keys: KeyRing, sealed: Uint8Array, context: readonly string[]): JsonObject {
  const value: JsonValue = JSON.parse(keys.open('requests', sealed, contextOf(context)).toString('utf8'))
  return isJsonObject(value) ? value : {}
}

/** Binds a sealed text to its row, so that it cannot be moved to another row. */
function contextOf(names: readonly string[]): string {
  return JSON.stringify(['task', ...names])
}

function sealedOf(row: Row) {
  const names = [text(row, 'tenant'), text(row, 'call')]
  const refusal = optionalBytes(row, 'refusal')
  return [
    { sealed: bytes(row, 'request'), context: contextOf(['request', ...names]) },
    ...(refusal === null ? [] : [{ sealed: refusal, context: contextOf(['refusal', ...names]) }]),
  ]
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'tasks', page: 'tasksAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) =>
      sealedOf(row).some(({ sealed, context }) => keys.isDue('requests', sealed, context)),
    *reseal({ keys }, row) {
      const [request, refusal] = sealedOf(row).map(({ sealed, context }) =>
        keys.reseal('requests', sealed, context),
      )
      yield* write('resealTask', request ?? null, refusal ?? null, integer(row, 'no'))
    },
  },
]

const queries = {
  beginTask: `INSERT INTO tasks (tenant, principal, call, request, created_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, principal, call) DO NOTHING`,
  findTask: 'SELECT * FROM tasks WHERE tenant = ? AND principal = ? AND call = ?',
  listTasks: 'SELECT * FROM tasks WHERE tenant = ? AND principal = ? AND no < ? ORDER BY no DESC LIMIT ?',
  endTask: `UPDATE tasks SET refusal = coalesce(refusal, ?), finished_at = coalesce(finished_at, ?)
    WHERE tenant = ? AND principal = ? AND call = ?`,
  tasksAfter: 'SELECT * FROM tasks WHERE no > ? ORDER BY no LIMIT ?',
  resealTask: 'UPDATE tasks SET request = ?, refusal = ? WHERE no = ?',
  deleteFinishedTasks: 'DELETE FROM tasks WHERE finished_at < ?',
  deleteOldTasks: 'DELETE FROM tasks WHERE created_at < ?',
} as const

const tables = `
CREATE TABLE tasks (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  call TEXT NOT NULL,
  request BLOB NOT NULL,
  refusal BLOB,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  UNIQUE (tenant, principal, call)
) STRICT;

CREATE INDEX tasks_owner ON tasks (tenant, principal, no);
CREATE INDEX tasks_created ON tasks (created_at);
CREATE INDEX tasks_finished ON tasks (finished_at);
`

/** A finished task is kept as long as results; an unfinished one as long as the journal. */
export const taskModule: StoreModule = {
  name: 'tasks',
  ...{ tables, queries, resealing },
  *forget({ nowMs, policy }) {
    yield* write('deleteFinishedTasks', nowMs - policy.resultsMs)
    yield* write('deleteOldTasks', nowMs - policy.journalMs)
    return 0
  },
}
