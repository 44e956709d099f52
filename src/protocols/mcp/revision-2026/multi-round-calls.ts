import { randomBytes } from 'node:crypto'
import type { JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply } from '#kernel/call/call'
import { CALL_ID_HEADER, callIdToHeader, callReplyHeaders } from '#protocols/call-wire'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, resultAnswer } from '#protocols/mcp/codec-message'
import { questionFromJson, readAnswer, toWireQuestion } from '#protocols/mcp/codec-question'
import type { McpServices } from '#protocols/mcp/exchange'
import { type AskedQuestion, fitsQuestion, QUESTION_MS, type Questions } from '#protocols/mcp/questions'
import { type Page, toolError } from '#protocols/mcp/reply'
import type { ResolvedCall } from '#protocols/mcp/tool-calls'
import { NEW_REVISION, type WireError } from '#protocols/mcp/wire'
import type { PendingCalls } from './pending-calls.ts'
import { openState, type RequestState, type StateOwner, sealState } from './request-state.ts'

/*
 * Calls of revision 2026-07-28 that take several requests, because the tool asks questions or a person has to open pages first
 * (MCP-70 to MCP-78). `tool-calls.ts` decides which step is next; this module sends questions and takes answers.
 * Invariant: a returned state is accepted once, by any process, even if the run is in another one.
 */

const NONCE_BYTES = 12
/** How long a retry waits for a page to be decided. Clients retry at once, and rarely more than once (MCP-78). */
const PAGE_WAIT_MS = 25_000
const POLL_MS = 250

/** Pages that a person has to open, with the questions that name them. */
interface PagesRequest {
  readonly reply: CallReply
  readonly pages: readonly Page[]
  readonly questions: readonly AskedQuestion[]
  readonly round: number
}

interface Asked {
  readonly callId: string
  readonly questions: readonly AskedQuestion[]
  readonly round: number
}

/** The next step of a call that runs in another process. */
type StoredStep =
  | { readonly kind: 'asks'; readonly questions: readonly AskedQuestion[] }
  | { readonly kind: 'done'; readonly reply: CallReply }

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

  /** Sends the questions of a waiting run, and the state that has to come back with the answers. */
  ask(call: ResolvedCall, { callId, questions, round }: Asked): Answer {
    const headers = { [CALL_ID_HEADER]: callIdToHeader(callId) }
    return this.#inputRequired(call, { callId, waitsFor: 'asked', challenges: [], round }, questions, headers)
  }

  /** Asks a person to open pages before the call can run. */
  askForPages(call: ResolvedCall, { reply, pages, questions, round }: PagesRequest): Answer {
    const { callId } = reply
    const challenges = pages.flatMap(({ key, challenge }) => (key === 'approval' ? [] : [challenge.id]))
    const state = { callId, waitsFor: 'page', challenges, round } as const
    return this.#inputRequired(call, state, questions, callReplyHeaders(reply))
  }

  /** Opens a returned state; `undefined` if it is forged, belongs to another request, has expired or was used before. */
  async open(call: ResolvedCall, sealed: string): Promise<RequestState | undefined> {
    const { callers, clock, sign } = this.#services
    const nowMs = clock.nowMs()
    const state = openState(sealed, ownerOf(call), { sign, nowMs })
    if (state === undefined || (call.asked.key !== undefined && call.asked.key !== state.callId))
      return undefined
    const { tenant } = call.exchange.principal
    return (await callers.spend(tenant, state.nonce, state.expiresAtMs)) ? state : undefined
  }

  /**
   * Delivers the answers to the run, or returns the error of an invalid one. Ignores unknown keys; unanswered questions are
   * asked again.
   */
  async deliver({ exchange, asked }: ResolvedCall, { callId }: RequestState): Promise<WireError | undefined> {
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

  /** Reads from the store the questions of a run in another process, or its outcome. */
  async nextStored({ exchange }: ResolvedCall, state: RequestState): Promise<StoredStep> {
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
      message:
        'The run that asked has ended without an outcome. Check for its effect before you call the tool again.',
      canRetry: false,
    } as const
    return {
      kind: 'done',
      reply: { callId: state.callId, outcome: { ok: false, error, durationMs: 0 }, replayed: false },
    }
  }

  /** Waits until the challenges of opened pages end. The answer `accept` means that a page was opened (MCP-77, MCP-78). */
  async waitForPages(
    { exchange, asked }: ResolvedCall,
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

  declined({ target }: ResolvedCall, callId: string): Answer {
    const message = 'The page was not opened, so the tool was not called.'
    const headers = { [CALL_ID_HEADER]: callIdToHeader(callId) }
    return toolError({ code: 'requirement_missing', message, canRetry: false }, { callId, headers, target })
  }

  async #openQuestions(principal: Principal, callId: string): Promise<readonly AskedQuestion[]> {
    const pending = this.#pending.find(principal, callId)
    if (pending !== undefined) return pending.openQuestions
    const found = await this.#services.callers.openQuestions(principal.tenant, principal.id, callId)
    return found.flatMap(({ id, question }) => {
      const read = questionFromJson(question)
      return read === undefined ? [] : [{ id, question: read }]
    })
  }

  #inputRequired(
    call: ResolvedCall,
    state: Omit<RequestState, 'expiresAtMs' | 'nonce'>,
    questions: readonly AskedQuestion[],
    headers: Answer['headers'],
  ): Answer {
    const { clock, sign } = this.#services
    const expiresAtMs = clock.nowMs() + QUESTION_MS
    const nonce = randomBytes(NONCE_BYTES).toString('base64url')
    const requestState = sealState({ ...state, expiresAtMs, nonce }, ownerOf(call), sign)
    const inputRequests = Object.fromEntries(
      questions.map(({ id, question }) => {
        const { method, params } = toWireQuestion(question, NEW_REVISION, id)
        return [question.key, { method, params }]
      }),
    )
    const result = call.target.envelope.inputRequired({ inputRequests, requestState }, state.callId)
    return resultAnswer(call.exchange.id, result, headers)
  }
}

function ownerOf({ exchange, asked }: ResolvedCall): StateOwner {
  return { principal: exchange.principal, name: asked.name, input: asked.input }
}
