import { randomBytes } from 'node:crypto'
import { isSameSecret } from '#kernel/base/hash'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply } from '#kernel/call/call'
import { CALL_ID_HEADER, callIdToHeader, callReplyHeaders } from '#protocols/call-wire'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './codec-message.ts'
import { type KeyedQuestion, questionFromJson, readAnswer, toWireQuestion } from './codec-question.ts'
import type { McpServices } from './exchange.ts'
import { fitsQuestion, type PendingCalls, QUESTION_MS, type Questions } from './questions.ts'
import { type Page, toolError } from './reply.ts'
import type { StartedCall } from './tool-calls.ts'
import { MCP_CODES, NEW_REVISION, type WireError } from './wire.ts'

const NONCE_BYTES = 12
/** MCP-78: the retry after a person opened a page waits for the decision; clients come again at once, and not often. */
const PAGE_WAIT_MS = 25_000
const POLL_MS = 250

interface AskedQuestion {
  readonly id: string
  readonly question: KeyedQuestion
}

interface Asked {
  readonly callId: string
  readonly questions: readonly AskedQuestion[]
  readonly round: number
}

interface AskedPages {
  readonly reply: CallReply
  readonly pages: readonly Page[]
  readonly message: string
  readonly round: number
}

type ElsewhereStep =
  | { readonly kind: 'asks'; readonly questions: readonly AskedQuestion[] }
  | { readonly kind: 'done'; readonly reply: CallReply }

/** Calls that are answered over several requests (MCP-70 to MCP-78). */
export class MultiRoundCalls {
  readonly waitMs = PAGE_WAIT_MS
  readonly #services: McpServices
  readonly #pending: PendingCalls
  readonly #questions: Questions

  constructor(parts: {
    readonly services: McpServices
    readonly pending: PendingCalls
    readonly questions: Questions
  }) {
    this.#services = parts.services
    this.#pending = parts.pending
    this.#questions = parts.questions
  }

  /** The run waits: its questions, and what to bring back with the answers. */
  ask(call: StartedCall, { callId, questions, round }: Asked): Answer {
    const { exchange, target } = call
    const inputRequests = Object.fromEntries(
      questions.map(({ id, question }) => {
        const { method, params } = toWireQuestion(question, exchange.revision, id)
        return [question.key, { method, params }]
      }),
    )
    const requestState = this.#seal(call, { callId, waitsFor: 'asked', challenges: [], round })
    const result = target.envelope.inputRequired({ inputRequests, requestState }, callId)
    return resultAnswer(exchange.id, result, { [CALL_ID_HEADER]: callIdToHeader(callId) })
  }

  /** A person has to open something first; `undefined` when this client can only be given the address (MCP/T-11). */
  askForPages(call: StartedCall, { reply, pages, message, round }: AskedPages): Answer | undefined {
    const { exchange, target } = call
    if (!exchange.capabilities.url) return undefined
    const { callId } = reply
    const headers = callReplyHeaders(reply)
    const questions = pages.map(({ key, message: what, challenge: { id, url } }) => ({
      id,
      question: { mode: 'url', key, message: `${what}: ${target.name}`, url, id } as const,
    }))
    if (exchange.revision !== NEW_REVISION) {
      const elicitations = questions.map(
        ({ id, question }) => toWireQuestion(question, exchange.revision, id).params,
      )
      const error = {
        code: MCP_CODES.urlElicitationRequired,
        message,
        data: { call_id: callId, elicitations },
      }
      return errorAnswer(exchange.id, error, { headers })
    }
    const inputRequests: JsonObject = Object.fromEntries(
      questions.map(({ id, question }) => {
        const { method, params } = toWireQuestion(question, exchange.revision, id)
        return [question.key, { method, params }]
      }),
    )
    const challenges = pages.flatMap(({ key, challenge }) => (key === 'approval' ? [] : [challenge.id]))
    const requestState = this.#seal(call, { callId, waitsFor: 'page', challenges, round })
    return resultAnswer(
      exchange.id,
      target.envelope.inputRequired({ inputRequests, requestState }, callId),
      headers,
    )
  }

  /** Ours, for this request, in time and for the first time; anything else is `undefined`. */
  async open(call: StartedCall, sealed: string): Promise<RequestState | undefined> {
    const { callers, clock } = this.#services
    const nowMs = clock.nowMs()
    const state = openState(sealed, ownerOf(call), { sign: (text) => this.#services.sign(text), nowMs })
    if (state === undefined || (call.asked.key !== undefined && call.asked.key !== state.callId))
      return undefined
    const { tenant } = call.exchange.principal
    return (await callers.spend(tenant, state.nonce, state.expiresAtMs)) ? state : undefined
  }

  /** Gives the answers to the run; what is wrong with them, or nothing. Unknown keys are ignored, missing ones asked again. */
  async deliver({ exchange, asked }: StartedCall, { callId }: RequestState): Promise<WireError | undefined> {
    const { principal } = exchange
    const fitting: { readonly id: string; readonly sent: JsonObject }[] = []
    for (const { id, question } of await this.#openQuestions(exchange.principal, callId)) {
      const sent = asked.inputResponses?.get(question.key)
      if (sent === undefined) continue
      const answer = readAnswer(question, sent)
      if (answer === undefined)
        return {
          code: JSON_RPC_CODES.badParams,
          message: `Bad answer in params.inputResponses: ${question.key}`,
        }
      if (fitsQuestion(question, answer)) fitting.push({ id, sent })
    }
    const pending = this.#pending.find(principal, callId)
    for (const { id, sent } of fitting) {
      pending?.answered(id)
      await this.#questions.deliver(id, principal, sent)
    }
    return undefined
  }

  /** The run waits in another process, or has ended since: the store tells (bridge table). */
  async nextElsewhere({ exchange }: StartedCall, state: RequestState): Promise<ElsewhereStep> {
    const { gateway, clock } = this.#services
    const { principal, leaving } = exchange
    while (leaving?.left?.aborted !== true && clock.nowMs() < state.expiresAtMs) {
      const questions = await this.#openQuestions(principal, state.callId)
      if (questions.length > 0) return { kind: 'asks', questions }
      const view = await gateway.readCall(principal, state.callId)
      if (view?.outcome !== undefined) {
        const { outcome, untrusted } = view
        const trust = untrusted === undefined ? {} : { untrusted }
        const reply = { callId: state.callId, outcome, replayed: true, ...trust }
        return { kind: 'done', reply }
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    const error = {
      code: 'session_lost',
      message: 'The run that asked is gone. Check for its effect before you call the tool again.',
      canRetry: false,
    } as const
    return {
      kind: 'done',
      reply: { callId: state.callId, outcome: { ok: false, error, durationMs: 0 }, replayed: false },
    }
  }

  /** `accept` means opened: waits for what the page is about, as long as clients wait (MCP-77, MCP-78). */
  async waitForPages(
    { exchange, asked }: StartedCall,
    { challenges }: RequestState,
  ): Promise<'accepted' | 'declined' | 'missing'> {
    const answers = [...(asked.inputResponses?.values() ?? [])]
    if (answers.length === 0) return 'missing'
    if (answers.some(({ action }) => action === 'decline' || action === 'cancel')) return 'declined'
    if (!answers.every(({ action }) => action === 'accept')) return 'missing'
    const endsAtMs = this.#services.clock.monotonicMs() + PAGE_WAIT_MS
    while (exchange.leaving?.left?.aborted !== true && this.#services.clock.monotonicMs() < endsAtMs) {
      const found = await Promise.all(challenges.map((id) => this.#services.gateway.findChallenge(id)))
      if (!found.some((challenge) => challenge?.status === 'pending')) break
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    return 'accepted'
  }

  declined({ target }: StartedCall, callId: string): Answer {
    const message = 'The page was not opened, so the tool was not called.'
    const headers = { [CALL_ID_HEADER]: callIdToHeader(callId) }
    return toolError({ code: 'requirement_missing', message, canRetry: false }, { callId, headers, target })
  }

  async #openQuestions(
    principal: StartedCall['exchange']['principal'],
    callId: string,
  ): Promise<readonly AskedQuestion[]> {
    const pending = this.#pending.find(principal, callId)
    if (pending !== undefined) return pending.openQuestions
    const found = await this.#services.callers.openQuestions(principal.tenant, principal.id, callId)
    return found.flatMap(({ id, question }) => {
      const read = questionFromJson(question)
      return read === undefined ? [] : [{ id, question: read }]
    })
  }

  #seal(call: StartedCall, state: Omit<RequestState, 'expiresAtMs' | 'nonce'>): string {
    const sealed = {
      ...state,
      expiresAtMs: this.#services.clock.nowMs() + QUESTION_MS,
      nonce: randomBytes(NONCE_BYTES).toString('base64url'),
    }
    return sealState(sealed, ownerOf(call), (text) => this.#services.sign(text))
  }
}

function ownerOf({ exchange, asked }: StartedCall) {
  return { principal: exchange.principal, name: asked.name, input: asked.input }
}

/** What a request that was answered with questions goes on with (MCP-72). */
export interface RequestState {
  readonly callId: string
  /** `asked`: its run waits for answers. `page`: nothing ran, a person has to do something first. */
  readonly waitsFor: 'asked' | 'page'
  /** Challenges whose end is waited for. */
  readonly challenges: readonly string[]
  readonly round: number
  readonly expiresAtMs: number
  /** Good once, and different every round (MCP/T-17). */
  readonly nonce: string
}

/** What a state is bound to: nobody else, and no other request, can use it. */
export interface StateOwner {
  readonly principal: Principal
  readonly name: string
  readonly input: JsonObject
}

const VERSION = 'v1'

export function sealState(state: RequestState, owner: StateOwner, sign: (text: string) => string): string {
  const payload = Buffer.from(JSON.stringify(state)).toString('base64url')
  return `${VERSION}.${payload}.${signatureOf(payload, owner, sign)}`
}

/** `undefined` for anything but what we sealed for this owner and has not expired. */
export function openState(
  sealed: string,
  owner: StateOwner,
  { sign, nowMs }: { readonly sign: (text: string) => string; readonly nowMs: number },
): RequestState | undefined {
  const [version, payload = '', signature = '', ...more] = sealed.split('.')
  if (version !== VERSION || more.length > 0) return undefined
  if (!isSameSecret(signature, signatureOf(payload, owner, sign))) return undefined
  const state = readState(JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')))
  return state !== undefined && state.expiresAtMs > nowMs ? state : undefined
}

function signatureOf(payload: string, owner: StateOwner, sign: (text: string) => string): string {
  const { principal, name, input } = owner
  return sign(
    JSON.stringify(['mcp state', principal.tenant, principal.id, name, canonicalJson(input), payload]),
  )
}

function readState(json: JsonValue): RequestState | undefined {
  if (!isJsonObject(json)) return undefined
  const { callId, waitsFor, challenges, round, expiresAtMs, nonce } = json
  if (typeof callId !== 'string' || typeof nonce !== 'string') return undefined
  if (typeof round !== 'number' || typeof expiresAtMs !== 'number') return undefined
  if (waitsFor !== 'asked' && waitsFor !== 'page') return undefined
  const ids = Array.isArray(challenges) ? challenges.filter((id) => typeof id === 'string') : []
  return { callId, waitsFor, challenges: ids, round, expiresAtMs, nonce }
}
