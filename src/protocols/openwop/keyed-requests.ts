import type { Clock } from '#kernel/base/clock'
import { fault, isToolError, StoreError, storeFault, type ToolError } from '#kernel/base/errors'
import { checkCallKey } from '#kernel/base/ids'
import { canonicalJson } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import { readKeyHeader } from '#protocols/call-wire'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import type { Store } from '#store/collet-store'
import type { BegunRequest, NewRequest } from '#store/protocol-state'
import { jsonReply, OPENWOP_ANSWERS, refuse } from './errors.ts'
import { IDEMPOTENT_REPLAY_HEADER } from './wire.ts'

/*
 * `Idempotency-Key` for openwop requests that change state: a request runs once, and every repetition gets the same answer (OWP-92).
 * `routes.ts` wraps its routes with `guard`.
 * Invariant: a key is recorded before its request runs, and is refused for another request.
 */

/** How long an answer is kept for repetitions. OWP-92 requires at least a day. */
export const REPLY_KEPT_MS = 86_400_000

/** Statuses after which nothing was done, so the request may be repeated with its key (OWP-92). */
const NOT_KEPT: ReadonlySet<number> = new Set([400, 401, 403, 429])

export interface KeyedRequestParts {
  readonly gateway: Gateway
  readonly store: Pick<Store, 'requests' | 'writer' | 'digest' | 'isWriterAlive'>
  readonly clock: Clock
}

export class KeyedRequests {
  readonly #parts: KeyedRequestParts
  /** Body digests of the requests in progress in this process, by tenant and request id. */
  readonly #underWay = new Map<string, string>()

  constructor(parts: KeyedRequestParts) {
    this.#parts = parts
  }

  /** Adds idempotency keys to a route; GET routes ignore them. */
  guard(route: HttpRoute): HttpRoute {
    if (route.method === 'GET') return route
    return { ...route, handle: (request) => this.#handle(route, request) }
  }

  async #handle(route: HttpRoute, request: HttpRequest): Promise<HttpReply> {
    const key = readKeyHeader(request.headers)
    const caller = key === undefined ? undefined : await this.#callerOf(route, request)
    if (key === undefined || caller === undefined) return await route.handle(request)
    const { store, clock } = this.#parts
    const entry: NewRequest = {
      tenant: caller.tenant,
      id: store.digest(
        JSON.stringify(['request', caller.id, route.method, route.path, request.params, checkKey(key)]),
      ),
      asked: store.digest(`asked ${request.body === undefined ? '' : canonicalJson(request.body)}`),
      expiresAtMs: clock.nowMs() + REPLY_KEPT_MS,
    }
    return await this.#answerOnce(entry, route, request)
  }

  async #answerOnce(entry: NewRequest, route: HttpRoute, request: HttpRequest): Promise<HttpReply> {
    const address = `${entry.tenant} ${entry.id}`
    const bodyUnderWay = this.#underWay.get(address)
    if (bodyUnderWay !== undefined) {
      if (bodyUnderWay !== entry.asked) throw mismatch()
      return inFlight()
    }
    this.#underWay.set(address, entry.asked)
    try {
      const begun = await this.#begin(entry)
      if (begun.kind === 'mismatch') throw mismatch()
      if (begun.kind === 'in_progress') return inFlight()
      if (begun.kind === 'answered') {
        const { reply } = begun
        return { ...reply, headers: { ...reply.headers, [IDEMPOTENT_REPLAY_HEADER]: 'true' } }
      }
      return await this.#answer(entry, route, request)
    } finally {
      this.#underWay.delete(address)
    }
  }

  /**
   * Records the key. Takes over a request that a dead process left unanswered, which is safe because every route here finds the result
   * of its earlier run.
   */
  async #begin(entry: NewRequest): Promise<BegunRequest> {
    const { store } = this.#parts
    try {
      const begun = await store.requests.begin(entry)
      if (begun.kind !== 'in_progress') return begun
      // A request of this process that is no longer in progress failed to record its answer.
      const isAbandoned = begun.writer === store.writer || !(await store.isWriterAlive(begun.writer))
      return isAbandoned ? await store.requests.begin({ ...entry, insteadOf: begun.writer }) : begun
    } catch (error) {
      // The request did not start, whether or not the key was recorded.
      if (storeFault(error) === undefined) throw error
      throw fault('not_ready', 'The server cannot record the key of the request. Repeat it shortly.', {
        cause: error,
      })
    }
  }

  async #answer(entry: NewRequest, route: HttpRoute, request: HttpRequest): Promise<HttpReply> {
    const { requests } = this.#parts.store
    let reply: HttpReply
    try {
      reply = await route.handle(request)
    } catch (error) {
      const status = isToolError(error) ? OPENWOP_ANSWERS[error.code].status : 500
      if (!isToolError(error) || !isKept(status)) {
        await ignoreStoreFailure(() => requests.release(entry))
        throw error
      }
      reply = refuse(request, error, status)
    }
    const { status, headers, body } = reply
    const isText = body === undefined || typeof body === 'string'
    if (!isText || !isKept(status)) await ignoreStoreFailure(() => requests.release(entry))
    else {
      const expiresAtMs = this.#parts.clock.nowMs() + REPLY_KEPT_MS
      await ignoreStoreFailure(() => requests.answer(entry, { status, headers, body }, expiresAtMs))
    }
    return reply
  }

  /** The caller of a request; for an open route the approver of its token. A request with an unknown token has no caller, so its key is not recorded. */
  async #callerOf(
    { access }: HttpRoute,
    { principal, params }: HttpRequest,
  ): Promise<Pick<Principal, 'tenant' | 'id'> | undefined> {
    if (access === 'authenticated') return principal
    const view = await this.#parts.gateway.approvals.readLink(params.token ?? '')
    return view === undefined ? undefined : { tenant: view.link.tenant, id: `link ${view.link.approver}` }
  }
}

function isKept(status: number): boolean {
  return status < 500 && !NOT_KEPT.has(status)
}

/** The request has been handled, so a failure to record its answer does not change that answer. */
async function ignoreStoreFailure(write: () => unknown): Promise<void> {
  try {
    await write()
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
  }
}

function checkKey(key: string): string {
  try {
    return checkCallKey(key)
  } catch (cause) {
    const message = 'Idempotency-Key must have 1 to 256 characters, none of them a control character.'
    throw fault('request_invalid', message, { cause })
  }
}

function mismatch(): ToolError {
  return fault(
    'key_conflict',
    'This Idempotency-Key was used for another request here. Repeat that request unchanged, or use a new key.',
  )
}

function inFlight(): HttpReply {
  const message = 'The same request is being answered. Repeat it shortly to get its answer.'
  return jsonReply(409, { error: 'idempotency_in_flight', message }, { 'retry-after': '1' })
}
