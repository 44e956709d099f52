import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import type { ErrorCode } from '#kernel/base/errors'
import { makePrincipal, type Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { CallReply, CallRequest, Progress } from '#kernel/call/call'

/** Another form of what follows is another path, so that replicas of two releases never misread each other. */
export const HOP_PATH = '/replica/v1'

/** To the replica that holds a session. The first says what is asked; the others belong to a call that is under way. */
export type ToHolder =
  | { readonly kind: 'call'; readonly principal: Principal; readonly request: SentRequest }
  | { readonly kind: 'close'; readonly principal: Principal; readonly sessionId: string }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: ElicitationAnswer }
  /** Nobody waits for the answer any more; or its caller left, where that means cancelling. */
  | { readonly kind: 'gone' | 'left' }

/** Back from it. One of the last three is the last. */
export type FromHolder =
  | { readonly kind: 'alive' }
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'question'; readonly id: number; readonly question: Elicitation }
  /** The tool does not wait for the answer any more. */
  | { readonly kind: 'unasked'; readonly id: number }
  | { readonly kind: 'reply'; readonly reply: CallReply }
  | { readonly kind: 'closed'; readonly isClosed: boolean }
  | {
      readonly kind: 'refused'
      readonly code: ErrorCode
      readonly message: string
      readonly retryAfterMs?: number | undefined
    }

/** What of a request can travel: its functions and signals become messages of their own. */
interface SentRequest extends Omit<CallRequest, 'tokens' | 'secrets' | Live | 'adapt'> {
  readonly tokens: readonly (readonly [string, string])[]
  readonly secrets: readonly (readonly [string, string])[]
  readonly wantsProgress: boolean
  readonly canBeAsked: boolean
  readonly mayLeave: boolean
}

type Live = 'gone' | 'onProgress' | 'onRecording' | 'onElicit' | 'leaving'

/** A request as it is sent. What a protocol would do to its input is done already. */
export function toSent(request: CallRequest): SentRequest {
  const { tokens, secrets, adapt: _adapt, gone: _gone, onRecording: _onRecording, ...rest } = request
  const { onProgress, onElicit, leaving, ...plain } = rest
  return {
    ...plain,
    tokens: revealed(tokens),
    secrets: revealed(secrets),
    wantsProgress: onProgress !== undefined,
    canBeAsked: onElicit !== undefined,
    mayLeave: leaving !== undefined,
  }
}

/** The request that was sent, with what of it lives on this side. */
export function fromSent(
  sent: SentRequest,
  live: Required<Pick<CallRequest, Exclude<Live, 'onRecording'>>>,
): CallRequest {
  const { tokens, secrets, wantsProgress, canBeAsked, mayLeave, ...plain } = sent
  const { gone, onProgress, onElicit, leaving } = live
  return {
    ...plain,
    tokens: hidden(tokens),
    secrets: hidden(secrets),
    gone,
    ...(wantsProgress ? { onProgress } : {}),
    ...(canBeAsked ? { onElicit } : {}),
    ...(mayLeave ? { leaving } : {}),
  }
}

/** The same object for the same principal, as with a credential: much is remembered by it. */
export class KnownPrincipals {
  readonly #byText = new Map<string, Principal>()
  readonly #most: number

  constructor(most = 10_000) {
    this.#most = most
  }

  of(principal: Principal): Principal {
    const text = JSON.stringify(principal)
    const known = this.#byText.get(text)
    if (known !== undefined) return known
    if (this.#byText.size >= this.#most) this.#byText.clear()
    const made = makePrincipal(principal)
    this.#byText.set(text, made)
    return made
  }
}

/** Only a replica with the same key can have written what comes here, so its form is not checked again. */
export function readToHolder(text: string): ToHolder {
  return JSON.parse(text)
}

export function readFromHolder(text: string): FromHolder {
  return JSON.parse(text)
}

function revealed(secrets: ReadonlyMap<string, Secret>): readonly (readonly [string, string])[] {
  return [...secrets].map(([id, secret]) => [id, secret.reveal()])
}

function hidden(sent: readonly (readonly [string, string])[]): ReadonlyMap<string, Secret> {
  return new Map(sent.map(([id, text]) => [id, new Secret(text)]))
}
