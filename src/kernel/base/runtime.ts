import { setImmediate } from 'node:timers/promises'
import { fault } from './errors.ts'
import type { JsonObject } from './json.ts'
import type { Principal } from './principal.ts'
import type { Secret } from './secret.ts'

/** Others wait at most about this long for a piece of long work; ten such pieces in a row are still no stall. */
const MAX_PIECE_MS = 5

/** Who breathes resumes in a turn of the event loop of its own, so that many long works together are no longer than one. */
let turns: Promise<void> = Promise.resolve()

/** For long work on the serving thread: asked between its steps, it lets others go on when it is time. */
export class Breather {
  #sinceMs = performance.now()

  get isDue(): boolean {
    return performance.now() - this.#sinceMs >= MAX_PIECE_MS
  }

  async breathe(): Promise<void> {
    turns = turns.then(() => setImmediate())
    await turns
    this.#sinceMs = performance.now()
  }
}

/** Runs long work to its end in one go; it yields where it could pause. */
export function atOnce<Result>(work: Generator<undefined, Result>): Result {
  let step = work.next()
  while (step.done !== true) step = work.next()
  return step.value
}

/** The same with pauses in which others go on. */
export async function inPieces<Result>(work: Generator<undefined, Result>): Promise<Result> {
  const breather = new Breather()
  let step = work.next()
  while (step.done !== true) {
    if (breather.isDue) await breather.breathe()
    step = work.next()
  }
  return step.value
}

/** The answer, or the signal's reason: code of others that ignores its signal holds nobody up. */
export function untilAborted<Value>(answer: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}

/** Waits for foreign code, but not for ever. */
export async function withDeadline<T>(maxMs: number, act: () => T | Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(fault('tool_timeout', `It took longer than ${maxMs} ms.`)), maxMs)
  try {
    return await Promise.race([Promise.resolve(act()), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** What a store that is near gives at once and one that is far gives later. */
export type MaybePromise<T> = T | Promise<T>

/** What a provider gave. */
export interface TokenSet {
  readonly accessToken: Secret
  readonly refreshToken: Secret | undefined
  readonly scopes: readonly string[]
  readonly expiresAtMs: number | undefined
}

export type RefreshAnswer =
  | { readonly kind: 'tokens'; readonly tokens: TokenSet }
  /** The provider will never take this refresh token again. */
  | { readonly kind: 'refused' }
  /** Nobody knows: unreachable, slow, or an answer that makes no sense. */
  | { readonly kind: 'unavailable' }

/** The authorization servers this server is a client of. */
/** The config has no such provider, the server cannot tell who would consent (rule 25), or the config does not allow the scopes. */
export type BrokerObstacle = 'no_provider' | 'no_sign_in' | 'scopes'

export interface TokenBroker {
  /** Why a person cannot be asked for this here; `undefined` = a person can. */
  obstacle(provider: string, scopes: readonly string[]): BrokerObstacle | undefined
  /** Never throws. `scopes` are those the refresh token has. */
  refresh(provider: string, refreshToken: Secret, scopes: readonly string[]): Promise<RefreshAnswer>
  /** Tells the provider that a token is not used any more; `false` when that was not possible. Never throws. */
  revoke(provider: string, token: Secret): Promise<boolean>
}

/** Without providers nothing can be asked for: callers bring their tokens. */
export const NO_BROKER: TokenBroker = {
  obstacle: () => 'no_provider',
  refresh: async () => ({ kind: 'unavailable' }),
  revoke: async () => false,
}

/**
 * A question of a running tool to the person behind the call. `key` tells the questions of one call apart on protocols
 * that answer them by name; without one they are numbered. `untrusted`: a third party wrote it.
 */
export type Elicitation =
  /** A few flat fields to fill in; never secrets (MCP-76). */
  | {
      readonly mode: 'form'
      readonly message: string
      /** Flat object schema of strings, numbers, booleans and choices. */
      readonly schema: JsonObject
      readonly key?: string
      readonly untrusted?: true
    }
  /** A page to open; accepting means "opened", not "done" (MCP-77). */
  | {
      readonly mode: 'url'
      readonly message: string
      readonly url: string
      readonly id: string
      readonly key?: string
      readonly untrusted?: true
    }
  /** Passed on for upstreams that ask it (MCP-81): the caller's model, and the folders it works in. */
  | { readonly mode: 'sampling'; readonly params: JsonObject; readonly key?: string }
  | { readonly mode: 'roots'; readonly key?: string }

export type ElicitationMode = Elicitation['mode']

export type ElicitationAnswer =
  /** The filled-in form, the message of the model, or the list of folders. */
  { readonly action: 'accept'; readonly content?: JsonObject } | { readonly action: 'decline' | 'cancel' }

/** Asks the caller; `cancel` when nobody answers in time, or waits any more. */
export type Elicit = (question: Elicitation, signal: AbortSignal) => Promise<ElicitationAnswer>

/** Who asks, before anything else is known. */
export interface ClientInfo {
  readonly address: string
  /** The route's pattern, or `unknown`. */
  readonly route: string
  readonly headers: Readonly<Record<string, string | undefined>>
}

export interface TokenFacts {
  /** Id of the authorization requirement. */
  readonly provider: string
  readonly token: Secret
  readonly tool: string
  readonly principal: Principal
  readonly userId: string | undefined
}

/** What an operator may add to the server's own checks. */
export interface Hooks {
  /** Allow-lists, rate limits and the like: a text refuses the request and says why. */
  readonly admit?: (client: ClientInfo) => string | undefined
  /** `false` for a token that is certainly not valid: the caller gets a challenge instead of a failed run. */
  readonly verifyToken?: (facts: TokenFacts) => boolean | Promise<boolean>
  /**
   * Whether the principal acts for this user id: `false` refuses the call, `true` vouches for the user, so tools get
   * it as `ctx.userId`. It does not open that user's part of the vault.
   */
  readonly bindUser?: (principal: Principal, userId: string) => boolean | Promise<boolean>
}

/** One line: a text alone, or fields with a text. */
export interface WriteLine {
  (message: string): void
  (fields: object, message?: string): void
}

/** The part of a structured logger that core and tools use. */
export interface Logger {
  readonly debug: WriteLine
  readonly info: WriteLine
  readonly warn: WriteLine
  readonly error: WriteLine
}

export const SILENT_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** The same log with fields of its own on every line. */
export function boundLogger(log: Logger, bound: object): Logger {
  const write =
    (level: keyof Logger): WriteLine =>
    (said: object | string, message?: string) =>
      typeof said === 'string'
        ? log[level](bound, said)
        : log[level]({ ...bound, ...fieldsOf(said) }, message)
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

const OUTAGE_LINE_EVERY_MS = 60_000

/**
 * What is said about an outage, which everybody who asks meanwhile meets: an error once a minute, and the rest for who debugs. It must
 * not fill the log, nor the disk that is full.
 */
export class OutageLog {
  readonly #log: Logger
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #saidAtMs = Number.NEGATIVE_INFINITY

  constructor(log: Logger, clock: Pick<Clock, 'monotonicMs'> = SYSTEM_CLOCK) {
    this.#log = log
    this.#clock = clock
  }

  complain(fields: object, message: string): void {
    const nowMs = this.#clock.monotonicMs()
    const isDue = nowMs - this.#saidAtMs >= OUTAGE_LINE_EVERY_MS
    if (isDue) this.#saidAtMs = nowMs
    this.#log[isDue ? 'error' : 'debug'](fields, message)
  }
}

/** An error's own fields are not enumerable, so spread on its own it would say nothing. */
function fieldsOf(said: object): object {
  return said instanceof Error ? { err: said } : said
}

/** Time, handed in so that tests can move it. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** Milliseconds that only go forward, for durations. */
  monotonicMs(): number
}

export const SYSTEM_CLOCK: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
