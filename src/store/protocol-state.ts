import { StoreError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, text } from '#kernel/store/rows'
import { mapped } from './steps.ts'
import { checkVaultKey, dataKeyOf, openSealed, sealUnder, vaultKeyOf } from './vault.ts'

/**
 * Protocol state across requests: answers by idempotency key (openwop), and sessions of MCP clients with their requests in progress
 * and the questions to them, so that any process can serve the next request.
 * Text from callers is sealed or stored as a keyed digest (rule 15).
 */

const { get, all, write } = statements<keyof typeof queries>()

/** A request that changes something and has an idempotency key (OWP-92). */
interface RequestAddress {
  readonly tenant: string
  /** Keyed digest of principal, endpoint and key, which all come from the caller. */
  readonly id: string
}

export interface NewRequest extends RequestAddress {
  /** Keyed digest of the request's content. */
  readonly asked: string
  readonly expiresAtMs: number
  /** Takes the request over from this writer, which left it unanswered and will not continue it. */
  readonly insteadOf?: string
}

/** A stored answer, which is repeated unchanged. */
export interface KeptReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

export type BegunRequest =
  | { readonly kind: 'begun' }
  | { readonly kind: 'answered'; readonly reply: KeptReply }
  /** A process is answering the request, or died before it did. */
  | { readonly kind: 'in_progress'; readonly writer: string }
  /** The key was already used for a different request. */
  | { readonly kind: 'mismatch' }

/** A client's session over many requests, as in MCP's older revisions; its id is unguessable. */
export interface CallerSession {
  readonly tenant: string
  readonly id: string
  /** A session groups requests; it does not authenticate them, so each request is checked (MCP-94). */
  readonly principal: string
  /** Revision and capabilities, negotiated when the session started, and what the client has set since then. */
  readonly agreed: JsonObject
  readonly touchedAtMs: number
}

/** A request in progress; its id is unique only in its session. */
export interface CallerRequest {
  readonly tenant: string
  readonly session: string
  readonly requestId: string
}

/** A question to the caller of a running call. */
export interface QuestionAddress {
  readonly tenant: string
  /** Unguessable id, made by the server. */
  readonly id: string
}

export interface NewQuestion extends QuestionAddress {
  readonly principal: string
  /** The caller's id of the call that asks. */
  readonly callId: string
  /** Stored sealed. */
  readonly question: JsonObject
  readonly expiresAtMs: number
}

/** Idle sessions are deleted after this long, because their clients cannot start a new one by themselves (MCP-23). */
export const CALLER_SESSION_IDLE_MS = 7 * 86_400_000

/** Longer than any call runs. */
const CALLER_REQUEST_KEPT_MS = 86_400_000

/** The maximum number of sessions of a principal, and when an idle session may be replaced. */
interface SessionLimit {
  readonly max: number
  readonly idleBeforeMs: number
}

type BeginOutcome =
  | Exclude<BegunRequest, { readonly kind: 'answered' }>
  | { readonly kind: 'answered'; readonly sealed: Uint8Array }

/** Requests by idempotency key. Only one writer begins each request. */
export function openIdempotentRequests({ exclusive, keys, chain }: StoreContext) {
  const order = ({ id }: RequestAddress) => `requests ${id}`
  const begin = exclusive(order, beginRequest)
  const answer = exclusive(order, answerRequest)
  const release = exclusive(order, (_group: CommitGroup, { tenant, id }: RequestAddress, writer: string) =>
    write('releaseRequest', tenant, id, writer),
  )
  return {
    /** Returns `begun` to exactly one of several callers. */
    async begin(request: NewRequest): Promise<BegunRequest> {
      const begun = await begin(request, chain.id)
      // The answer is opened after the commit, so that an unreadable answer fails only the request that needs it.
      return begun.kind === 'answered'
        ? { kind: 'answered', reply: openReply(keys, begun.sealed, request) }
        : begun
    },
    /** Stores the answer to a request that this writer began. */
    answer: (to: RequestAddress, reply: KeptReply, expiresAtMs: number) =>
      answer(to, { reply, expiresAtMs, writer: chain.id }),
    /** Frees the key of a request that this writer began and that changed nothing. */
    release: (address: RequestAddress) => release(address, chain.id),
  }
}

export type IdempotentRequestStore = ReturnType<typeof openIdempotentRequests>

function* beginRequest(_group: CommitGroup, request: NewRequest, writer: string): Steps<BeginOutcome> {
  const { tenant, id, asked, expiresAtMs, insteadOf } = request
  const row = yield* get('findRequest', tenant, id)
  if (row !== undefined && text(row, 'asked') !== asked) return { kind: 'mismatch' }
  if (row !== undefined && row.reply !== null) return { kind: 'answered', sealed: bytes(row, 'reply') }
  const holder = row === undefined ? undefined : text(row, 'writer')
  if (holder !== undefined && holder !== insteadOf) return { kind: 'in_progress', writer: holder }
  yield* write('beginRequest', tenant, id, asked, writer, expiresAtMs)
  return { kind: 'begun' }
}

function* answerRequest(
  group: CommitGroup,
  to: RequestAddress,
  answer: { readonly reply: KeptReply; readonly expiresAtMs: number; readonly writer: string },
): Steps<void> {
  const plain = Buffer.from(JSON.stringify(answer.reply))
  const sealed = group.keys.seal('requests', plain, replyContext(to))
  yield* write('answerRequest', sealed, answer.expiresAtMs, to.tenant, to.id, answer.writer)
}

function openReply(keys: KeyRing, sealed: Uint8Array, address: RequestAddress): KeptReply {
  const plain: JsonValue = JSON.parse(keys.open('requests', sealed, replyContext(address)).toString('utf8'))
  if (isJsonObject(plain) && typeof plain.status === 'number' && isJsonObject(plain.headers)) {
    const { status, body } = plain
    const headers = Object.fromEntries(
      Object.entries(plain.headers).map(([name, value]) => [name, String(value)]),
    )
    return { status, headers, body: typeof body === 'string' ? body : undefined }
  }
  throw new StoreError('unreadable', 'a stored answer is malformed')
}

/** Binds an answer to its request, so that it cannot be moved to another request. */
function replyContext({ tenant, id }: RequestAddress): string {
  return JSON.stringify(['request', tenant, id])
}

export function openProtocolSessions({ exclusive, read, keys }: StoreContext) {
  const none = () => ''
  const checkKey = read((tenant: string) => checkVaultKey(keys, tenant))
  const ask = exclusive(none, askQuestion)
  const columnsOf = ({ tenant, session, requestId }: CallerRequest) =>
    [tenant, session, keys.digest(requestId)] as const
  return {
    /**
     * If the principal has `limit.max` sessions, replaces the one idle longest if it was last used before `limit.idleBeforeMs`;
     * otherwise returns `false`.
     */
    openSession: exclusive(none, openCallerSession),
    findSession: read(findCallerSession),
    touchSession: exclusive(none, (_group: CommitGroup, tenant: string, id: string, atMs: number) =>
      write('touchCallerSession', atMs, tenant, id),
    ),
    /** Replaces what the client and the server agreed on. */
    setAgreed: exclusive(none, (_group: CommitGroup, tenant: string, id: string, agreed: JsonObject) =>
      write('setAgreed', JSON.stringify(agreed), tenant, id),
    ),
    /** `false` if the session does not exist. */
    endSession: exclusive(none, (_group: CommitGroup, tenant: string, id: string) =>
      mapped(write('endCallerSession', tenant, id), Boolean),
    ),
    /** A second request with the same id replaces the first. */
    beginRequest: exclusive(none, (_group: CommitGroup, request: CallerRequest, atMs: number) =>
      write('beginCallerRequest', ...columnsOf(request), atMs),
    ),
    /** Requests that the serving process stops the request; `false` if no process serves it. */
    cancelRequest: exclusive(none, (_group: CommitGroup, request: CallerRequest) =>
      mapped(write('cancelCallerRequest', ...columnsOf(request)), Boolean),
    ),
    isCancelled: read((request: CallerRequest) =>
      mapped(
        get('findCallerRequest', ...columnsOf(request)),
        (row) => row !== undefined && integer(row, 'cancelled') === 1,
      ),
    ),
    endRequest: exclusive(none, (_group: CommitGroup, request: CallerRequest) =>
      write('endCallerRequest', ...columnsOf(request)),
    ),
    async ask(question: NewQuestion) {
      await checkKey(question.tenant)
      await ask({ ...question, callId: keys.digest(question.callId) })
    },
    /** The first answer counts; `false` for a later one, and for a question to another caller. */
    answer: exclusive(none, answerQuestion),
    findAnswer: read((to: QuestionAddress) => findAnswer(keys, to)),
    /** Unanswered questions of a principal's call, oldest first. */
    openQuestions: read((tenant: string, principal: string, callId: string) =>
      mapped(all('openQuestions', tenant, keys.digest(callId), principal), (rows) =>
        rows.map((row) => {
          const address = { tenant, id: text(row, 'id') }
          return { ...address, question: openText(keys, row, 'question', address) }
        }),
      ),
    ),
    endQuestion: exclusive(none, (_group: CommitGroup, { tenant, id }: QuestionAddress) =>
      write('endQuestion', tenant, id),
    ),
    /** Marks a value that may be sent back only once as used; returns `true` to exactly one of several callers. */
    spend: exclusive(none, (_group: CommitGroup, tenant: string, mark: string, expiresAtMs: number) =>
      mapped(write('spendMark', tenant, mark, expiresAtMs), Boolean),
    ),
    isSpent: read((tenant: string, mark: string) => mapped(get('findMark', tenant, mark), Boolean)),
  }
}

export type ProtocolSessionStore = ReturnType<typeof openProtocolSessions>

function* openCallerSession(
  _group: CommitGroup,
  session: CallerSession,
  limit?: SessionLimit,
): Steps<boolean> {
  const { tenant, id, principal, agreed, touchedAtMs } = session
  if (limit !== undefined && !(yield* makeSpace(session, limit))) return false
  yield* write('openCallerSession', tenant, id, principal, JSON.stringify(agreed), touchedAtMs)
  return true
}

function* makeSpace(
  { tenant, principal }: CallerSession,
  { max, idleBeforeMs }: SessionLimit,
): Steps<boolean> {
  const own = yield* all('callerSessionsOf', tenant, principal)
  const [oldest] = own
  if (own.length < max || oldest === undefined) return true
  if (integer(oldest, 'touched_at') >= idleBeforeMs) return false
  return (yield* write('endCallerSession', tenant, text(oldest, 'id'))) > 0
}

function* findCallerSession(tenant: string, id: string): Steps<CallerSession | undefined> {
  const row = yield* get('findCallerSession', tenant, id)
  if (row === undefined) return undefined
  return {
    tenant,
    id,
    principal: text(row, 'principal'),
    agreed: objectOf(text(row, 'agreed')),
    touchedAtMs: integer(row, 'touched_at'),
  }
}

function* askQuestion(group: CommitGroup, asked: NewQuestion): Steps<void> {
  const { tenant, id, principal, callId, question, expiresAtMs } = asked
  const { no, key } = yield* vaultKeyOf(group, tenant, expiresAtMs)
  const sealed = sealUnder(key, JSON.stringify(question), sealContext('question', asked))
  yield* write('askCaller', tenant, id, principal, callId, no, sealed, expiresAtMs)
}

/** Seals the answer under the key of its question. */
function* answerQuestion(
  group: CommitGroup,
  to: QuestionAddress,
  principal: string,
  answer: JsonObject,
): Steps<boolean> {
  const { tenant, id } = to
  const row = yield* get('findQuestion', tenant, id)
  if (row === undefined) return false
  const sealed = sealUnder(dataKeyOf(group.keys, row), JSON.stringify(answer), sealContext('answer', to))
  return (yield* write('answerQuestion', sealed, tenant, id, principal)) > 0
}

function* findAnswer(keys: KeyRing, to: QuestionAddress): Steps<JsonObject | undefined> {
  const row = yield* get('findQuestion', to.tenant, to.id)
  return row === undefined || row.answer === null ? undefined : openText(keys, row, 'answer', to)
}

function openText(
  keys: KeyRing,
  row: Row,
  column: 'question' | 'answer',
  address: QuestionAddress,
): JsonObject {
  return objectOf(openSealed(keys, row, column, sealContext(column, address)))
}

function sealContext(what: 'question' | 'answer', { tenant, id }: QuestionAddress): readonly string[] {
  return ['caller', what, tenant, id]
}

function objectOf(json: string): JsonObject {
  const value: JsonValue = JSON.parse(json)
  return isJsonObject(value) ? value : {}
}

const REQUEST = 'tenant = ? AND session = ? AND request = ?'

const OWN = 'tenant = ? AND id = ? AND writer = ? AND reply IS NULL'

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'answers to requests', page: 'answeredAfter', start: ['', ''] },
    after: (row) => [text(row, 'tenant'), text(row, 'id')],
    isDue: (row, keys) => keys.isDue('requests', bytes(row, 'reply'), replyContext(addressOf(row))),
    *reseal({ keys }, row) {
      const address = addressOf(row)
      const reply = keys.reseal('requests', bytes(row, 'reply'), replyContext(address))
      yield* write('resealReply', reply, address.tenant, address.id)
    },
  },
]

function addressOf(row: Row): RequestAddress {
  return { tenant: text(row, 'tenant'), id: text(row, 'id') }
}

const queries = {
  answeredAfter: `SELECT tenant, id, reply FROM keyed_requests WHERE (tenant, id) > (?, ?) AND reply IS NOT NULL
    ORDER BY tenant, id LIMIT ?`,
  resealReply: 'UPDATE keyed_requests SET reply = ? WHERE tenant = ? AND id = ?',
  openCallerSession: `INSERT INTO caller_sessions (tenant, id, principal, agreed, touched_at) VALUES (?, ?, ?, ?, ?)`,
  findCallerSession: 'SELECT * FROM caller_sessions WHERE tenant = ? AND id = ?',
  callerSessionsOf:
    'SELECT id, touched_at FROM caller_sessions WHERE tenant = ? AND principal = ? ORDER BY touched_at',
  touchCallerSession: 'UPDATE caller_sessions SET touched_at = ? WHERE tenant = ? AND id = ?',
  setAgreed: 'UPDATE caller_sessions SET agreed = ? WHERE tenant = ? AND id = ?',
  endCallerSession: 'DELETE FROM caller_sessions WHERE tenant = ? AND id = ?',
  deleteCallerSessions: 'DELETE FROM caller_sessions WHERE touched_at < ?',
  beginCallerRequest: `INSERT INTO caller_requests (tenant, session, request, began_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, session, request) DO UPDATE SET cancelled = 0, began_at = excluded.began_at`,
  cancelCallerRequest: `UPDATE caller_requests SET cancelled = 1 WHERE ${REQUEST}`,
  findCallerRequest: `SELECT cancelled FROM caller_requests WHERE ${REQUEST}`,
  endCallerRequest: `DELETE FROM caller_requests WHERE ${REQUEST}`,
  deleteCallerRequests: 'DELETE FROM caller_requests WHERE began_at < ?',
  askCaller: `INSERT INTO caller_questions (tenant, id, principal, call, data_key, question, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  findQuestion: `SELECT q.*, k.wrapped FROM caller_questions q LEFT JOIN vault_keys k ON k.no = q.data_key AND k.tenant = q.tenant
    WHERE q.tenant = ? AND q.id = ?`,
  answerQuestion:
    'UPDATE caller_questions SET answer = ? WHERE tenant = ? AND id = ? AND principal = ? AND answer IS NULL',
  openQuestions: `SELECT q.*, k.wrapped FROM caller_questions q LEFT JOIN vault_keys k ON k.no = q.data_key AND k.tenant = q.tenant
    WHERE q.tenant = ? AND q.call = ? AND q.principal = ? AND q.answer IS NULL ORDER BY q.no`,
  endQuestion: 'DELETE FROM caller_questions WHERE tenant = ? AND id = ?',
  deleteQuestionsOfTenant: 'DELETE FROM caller_questions WHERE tenant = ?',
  deleteQuestions: 'DELETE FROM caller_questions WHERE expires_at < ?',
  spendMark: 'INSERT INTO caller_marks (tenant, mark, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  findMark: 'SELECT expires_at FROM caller_marks WHERE tenant = ? AND mark = ?',
  deleteMarks: 'DELETE FROM caller_marks WHERE expires_at < ?',
  findRequest: 'SELECT asked, writer, reply FROM keyed_requests WHERE tenant = ? AND id = ?',
  beginRequest: `INSERT INTO keyed_requests (tenant, id, asked, writer, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, id) DO UPDATE SET writer = excluded.writer, expires_at = excluded.expires_at`,
  answerRequest: `UPDATE keyed_requests SET reply = ?, expires_at = ? WHERE ${OWN}`,
  releaseRequest: `DELETE FROM keyed_requests WHERE ${OWN}`,
  deleteRequests: 'DELETE FROM keyed_requests WHERE expires_at < ?',
} as const

/** Questions and answers are sealed under their tenant's data key; replies are sealed under a separate key. */
const tables = `
CREATE TABLE caller_sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  agreed TEXT NOT NULL,
  touched_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_sessions_touched ON caller_sessions (touched_at);
CREATE INDEX caller_sessions_owner ON caller_sessions (tenant, principal, touched_at);

CREATE TABLE caller_requests (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  request TEXT NOT NULL,
  cancelled INTEGER NOT NULL DEFAULT 0,
  began_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, request)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_requests_began ON caller_requests (began_at);

CREATE TABLE caller_questions (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  call TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  question BLOB NOT NULL,
  answer BLOB,
  expires_at INTEGER NOT NULL,
  UNIQUE (tenant, id)
) STRICT;

CREATE INDEX caller_questions_call ON caller_questions (tenant, call);
CREATE INDEX caller_questions_end ON caller_questions (expires_at);

CREATE TABLE caller_marks (
  tenant TEXT NOT NULL,
  mark TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, mark)
) STRICT, WITHOUT ROWID;

CREATE INDEX caller_marks_end ON caller_marks (expires_at);

CREATE TABLE keyed_requests (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  asked TEXT NOT NULL,
  writer TEXT NOT NULL,
  reply BLOB,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX keyed_requests_end ON keyed_requests (expires_at);
`

export const protocolModule: StoreModule = {
  name: 'protocol state',
  ...{ tables, queries, resealing },
  *forget({ nowMs }) {
    yield* write('deleteCallerSessions', nowMs - CALLER_SESSION_IDLE_MS)
    yield* write('deleteCallerRequests', nowMs - CALLER_REQUEST_KEPT_MS)
    yield* write('deleteQuestions', nowMs)
    yield* write('deleteMarks', nowMs)
    yield* write('deleteRequests', nowMs)
    return 0
  },
}
