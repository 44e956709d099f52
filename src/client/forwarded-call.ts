import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { FailureClass } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './failure.ts'
import { type Fetch, withHeader } from './http.ts'

/**
 * A call that a server forwards to another server, for sources of type OTC and OpenTool. It observes the client's requests to
 * decide whether the call can have run. Invariant: `canRetry` is true only if nothing can have taken effect (rule 9), or if the
 * other server's tool says so.
 */

/** Statuses with which a server refuses a request before processing it (rule 9). */
const NOT_PROCESSED: ReadonlySet<number> = new Set([429, 503])

/** One forwarded call, with the state of its requests. */
export class ForwardedCall {
  readonly #send: Fetch
  /** Name of the other server, for messages. */
  readonly #upstream: string
  /** True while every request was refused before processing, or never sent. */
  #isUntouched = true
  /** True once a request may have run without an answer that tells its outcome. */
  #isLost = false

  constructor(send: Fetch, upstream: string, traceHeaders: Readonly<Record<string, string>> = {}) {
    this.#send = Object.entries(traceHeaders).reduce(
      (sending, [name, value]) => withHeader(sending, name, value),
      send,
    )
    this.#upstream = upstream
  }

  /** The `fetch` to use for every request of the call. */
  readonly fetch: Fetch = async (url, init) => {
    try {
      const response = await this.#send(url, init)
      const { status } = response
      if (!NOT_PROCESSED.has(status)) this.#isUntouched = false
      if (status === 408 || (status >= 500 && status !== 503)) this.#isLost = true
      return response
    } catch (error) {
      // This server's egress rules would refuse a repeated request again.
      if (isEgressDenied(error)) throw new CallFailure('config', error.message, { cause: error })
      const isUnsent = isToolError(error) && error.canRetry
      if (!isUnsent) {
        this.#isUntouched = false
        this.#isLost = true
      }
      throw error
    }
  }

  /** Converts the client's failure into a tool's error. */
  toToolError(error: unknown): ToolError {
    if (isToolError(error)) return error
    if (!(error instanceof CallFailure)) throw error
    if (isEgressDenied(error.cause)) return error.cause
    const { class: kind, retryAfterMs, status } = error
    const facts = [`${kind} from ${this.#upstream}`, status === undefined ? [] : `status ${status}`].flat()
    const code = kind === 'tool' || kind === 'validation' ? 'tool_failed' : 'upstream_failed'
    const additionalPromptContent = kind === 'tool' ? error.additionalPromptContent : undefined
    return fault(code, MESSAGES[kind](error, this.#upstream), {
      canRetry: this.#canRetry(error),
      developerMessage: `${facts.join(', ')}: ${error.developerMessage ?? error.message}`,
      ...defined({ retryAfterMs, additionalPromptContent }),
      cause: error,
    })
  }

  #canRetry({ class: kind, canRetry }: CallFailure): boolean {
    switch (kind) {
      case 'tool':
        return canRetry
      case 'validation':
        return false
      case 'server':
        return canRetry && !this.#isLost
      case 'transport':
        return this.#isUntouched
      // The missing credential can be supplied, and the same call then succeeds under the same key.
      case 'unauthenticated':
      case 'authorization_required':
      case 'approval_required':
      case 'requirements':
      case 'config':
        return !this.#isLost
    }
  }
}

function isEgressDenied(error: unknown): error is ToolError {
  return isToolError(error) && error.code === 'egress_denied'
}

/** Texts for callers of this server, who cannot see the other server. */
const MESSAGES = {
  tool: ({ message }) => message,
  validation: ({ modelText }) => modelText,
  server: ({ message }) => message,
  unauthenticated: (_, upstream) =>
    `${upstream} does not accept the credentials of this server; ask its operator.`,
  authorization_required: withMissing,
  approval_required: withMissing,
  requirements: withMissing,
  config: (_, upstream) => `This server cannot pass the call on to ${upstream}; ask its operator.`,
  transport: (_, upstream) =>
    `${upstream} sent no usable answer; it is not known whether the call ran there.`,
} satisfies Record<FailureClass, (failure: CallFailure, upstream: string) => string>

/** The missing requirements in the other server's words, with the pages to open. */
function withMissing({ message, challenges, missing }: CallFailure, upstream: string): string {
  const urls = challenges.map(({ url }) => url).filter((url) => !message.includes(url))
  const visit = urls.length === 0 ? [] : [`Open ${urls.join(' and ')}, then call again.`]
  const lacking = [
    ...(missing?.secrets ?? []).map((id) => `the secret ${id}`),
    ...(missing?.userId === true ? ['a user id'] : []),
  ]
  const lacks = lacking.length === 0 ? [] : [`It lacks ${lacking.join(' and ')}.`]
  return [`${upstream} did not run the call: ${message}`, ...visit, ...lacks].join(' ')
}

/** True if a forwarded call failed because the other server cannot be reached or refuses this server's credentials. */
export function isOutage(error: unknown): boolean {
  const failure = isToolError(error) ? error.cause : undefined
  return (
    failure instanceof CallFailure && (failure.class === 'transport' || failure.class === 'unauthenticated')
  )
}
