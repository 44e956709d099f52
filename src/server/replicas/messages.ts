import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import type { ErrorCode } from '#kernel/base/errors'
import { makePrincipal, type Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { CallReply, CallRequest, Progress } from '#kernel/call/call'
import type { ClientMessage } from '#kernel/tool/tool'

/*
 * The messages between replicas, and their conversion from and to call requests. Used by both ends of a forwarded call.
 * Messages are JSON. Only a replica with the same key can have written one, so its form is not checked.
 * Invariant: functions and signals are never sent; they become separate messages.
 */

/** The version in the path changes with the messages, so that replicas of two releases never misread each other. */
export const HOP_PATH = '/replica/v1'

/** Messages to the replica that holds a session. The first is the request; the others belong to a running call. */
export type ToHolder =
  | { readonly kind: 'call'; readonly principal: Principal; readonly request: SentRequest }
  | { readonly kind: 'close'; readonly principal: Principal; readonly sessionId: string }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: ElicitationAnswer }
  /** `gone`: the caller no longer waits. `left`: it disconnected, and its protocol then cancels the call. */
  | { readonly kind: 'gone' | 'left' }

/** Messages from the replica that holds the session. One of the last three kinds ends the exchange. */
export type FromHolder =
  | { readonly kind: 'alive' }
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'message'; readonly message: ClientMessage }
  | { readonly kind: 'question'; readonly id: number; readonly question: Elicitation }
  /** The tool no longer waits for the answer. */
  | { readonly kind: 'unasked'; readonly id: number }
  | { readonly kind: 'reply'; readonly reply: CallReply }
  | { readonly kind: 'closed'; readonly isClosed: boolean }
  | {
      readonly kind: 'refused'
      readonly code: ErrorCode
      readonly message: string
      readonly retryAfterMs?: number | undefined
    }

/** The serialisable part of a request. */
interface SentRequest extends Omit<CallRequest, 'tokens' | 'secrets' | LocalMember | 'adapt'> {
  readonly tokens: readonly (readonly [string, string])[]
  readonly secrets: readonly (readonly [string, string])[]
  readonly wantsProgress: boolean
  readonly wantsMessages: boolean
  readonly canBeAsked: boolean
  readonly mayLeave: boolean
}

/** Functions and signals, which cannot be sent. */
type LocalMember = 'gone' | 'onProgress' | 'onMessage' | 'onRecording' | 'onElicit' | 'leaving'

/** A request in its sent form; `adapt` of its protocol is already applied. */
export function toSent(request: CallRequest): SentRequest {
  const { tokens, secrets, adapt: _adapt, gone: _gone, onRecording: _onRecording, ...rest } = request
  const { onProgress, onMessage, onElicit, leaving, ...plain } = rest
  return {
    ...plain,
    tokens: revealAll(tokens),
    secrets: revealAll(secrets),
    wantsProgress: onProgress !== undefined,
    wantsMessages: onMessage !== undefined,
    canBeAsked: onElicit !== undefined,
    mayLeave: leaving !== undefined,
  }
}

/** The received request, with functions and signals of this side. */
export function fromSent(
  sent: SentRequest,
  live: Required<Pick<CallRequest, Exclude<LocalMember, 'onRecording'>>>,
): CallRequest {
  const { tokens, secrets, wantsProgress, wantsMessages, canBeAsked, mayLeave, ...plain } = sent
  const { gone, onProgress, onMessage, onElicit, leaving } = live
  return {
    ...plain,
    tokens: toSecretMap(tokens),
    secrets: toSecretMap(secrets),
    gone,
    ...(wantsProgress ? { onProgress } : {}),
    ...(wantsMessages ? { onMessage } : {}),
    ...(canBeAsked ? { onElicit } : {}),
    ...(mayLeave ? { leaving } : {}),
  }
}

const MAX_PRINCIPALS = 10_000

/** Keeps one object per principal, because caches are keyed by that object. */
export class KnownPrincipals {
  readonly #byText = new Map<string, Principal>()

  of(principal: Principal): Principal {
    const text = JSON.stringify(principal)
    const known = this.#byText.get(text)
    if (known !== undefined) return known
    if (this.#byText.size >= MAX_PRINCIPALS) this.#byText.clear()
    const made = makePrincipal(principal)
    this.#byText.set(text, made)
    return made
  }
}

function revealAll(secrets: ReadonlyMap<string, Secret>): readonly (readonly [string, string])[] {
  return [...secrets].map(([id, secret]) => [id, secret.reveal()])
}

function toSecretMap(sent: readonly (readonly [string, string])[]): ReadonlyMap<string, Secret> {
  return new Map(sent.map(([id, text]) => [id, new Secret(text)]))
}
