import { type ErrorCode, fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { FailureClass, RemoteMissing } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './failure.ts'
import type { Fetch } from './http.ts'

/**
 * A call that a server forwards to another server, for sources of type OTC and OpenTool. It observes the requests of
 * the client to decide whether the call can have run. Invariant: `canRetry` is true only if nothing can have taken
 * effect (rule 9).
 */

/** Statuses by which a server refuses a request before taking it (rule 9). */
const NOT_TAKEN: ReadonlySet<number> = new Set([429, 503])

/** One forwarded call and what its requests met. */
export class ForwardedCall {
  readonly #send: Fetch
  /** Name of the other server, for messages. */
  readonly #upstream: string
  #isUntouched = true
  #isLost = false

  constructor(send: Fetch, upstream: string, traceparent?: string) {
    this.#send = traceparent === undefined ? send : traced(send, traceparent)
    this.#upstream = upstream
  }

  /** The `fetch` to use for every request of the call. */
  readonly fetch: Fetch = async (url, init) => {
    try {
      const response = await this.#send(url, init)
      const { status } = response
      if (!NOT_TAKEN.has(status)) this.#isUntouched = false
      if (status === 408 || (status >= 500 && status !== 503)) this.#isLost = true
      return response
    } catch (error) {
      const isUnsent = isToolError(error) && (error.canRetry || error.code === 'egress_denied')
      if (!isUnsent) {
        this.#isUntouched = false
        this.#isLost = true
      }
      // A refusal by our own egress rules would repeat.
      if (isToolError(error) && error.code === 'egress_denied') {
        throw new CallFailure('config', error.message, { cause: error })
      }
      throw error
    }
  }

  /** Converts the failure into a tool's error. `canRetry` only if nothing can have taken effect (rule 9). */
  toToolError(error: unknown): ToolError {
    if (isToolError(error)) return error
    if (!(error instanceof CallFailure)) throw error
    if (isToolError(error.cause) && error.cause.code === 'egress_denied') return error.cause
    const { class: kind, developerMessage, additionalPromptContent, retryAfterMs } = error
    const { code, text } = WORDS[kind]
    return fault(code, text(error, this.#upstream), {
      canRetry: this.#canRetry(error),
      developerMessage: this.#forDeveloper(error, developerMessage),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(kind === 'tool' && additionalPromptContent !== undefined ? { additionalPromptContent } : {}),
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

  #forDeveloper({ class: kind, status, message }: CallFailure, said: string | undefined): string {
    const facts = [`${kind} from ${this.#upstream}`, status === undefined ? [] : `status ${status}`].flat()
    return `${facts.join(', ')}: ${said ?? message}`
  }
}

interface Words {
  readonly code: ErrorCode
  text(failure: CallFailure, upstream: string): string
}

const WORDS = {
  tool: { code: 'tool_failed', text: ({ message }) => message },
  validation: { code: 'tool_failed', text: ({ modelText }) => modelText },
  server: { code: 'upstream_failed', text: ({ message }) => message },
  unauthenticated: {
    code: 'upstream_failed',
    text: (_, upstream) => `${upstream} does not accept the credentials of this server; ask its operator.`,
  },
  authorization_required: { code: 'upstream_failed', text: withMissing },
  approval_required: { code: 'upstream_failed', text: withMissing },
  requirements: { code: 'upstream_failed', text: withMissing },
  config: {
    code: 'upstream_failed',
    text: (_, upstream) => `This server cannot pass the call on to ${upstream}; ask its operator.`,
  },
  transport: {
    code: 'upstream_failed',
    text: (_, upstream) => `${upstream} gave no usable answer; whether the call ran there is not known.`,
  },
} satisfies Record<FailureClass, Words>

/** What the other server requires, in its own words and with the pages to open. */
function withMissing({ message, challenges, missing }: CallFailure, upstream: string): string {
  const places = challenges.map(({ url }) => url).filter((url) => !message.includes(url))
  const visit = places.length === 0 ? [] : [`Open ${places.join(' and ')}, then call again.`]
  return [`${upstream} did not run the call: ${message}`, ...visit, ...lacking(missing)].join(' ')
}

function lacking(missing: RemoteMissing | undefined): readonly string[] {
  const things = [
    ...(missing?.secrets ?? []).map((id) => `the secret ${id}`),
    ...(missing?.userId === true ? ['a user id'] : []),
  ]
  return things.length === 0 ? [] : [`It lacks ${things.join(' and ')}.`]
}

/** Whether a forwarded call failed because the other server cannot be reached or accepts nothing. */
export function isOutage(error: unknown): boolean {
  const failure = isToolError(error) ? error.cause : undefined
  return (
    failure instanceof CallFailure && (failure.class === 'transport' || failure.class === 'unauthenticated')
  )
}

/** Adds the trace of the call to every request. */
function traced(send: Fetch, traceparent: string): Fetch {
  return (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('traceparent', traceparent)
    return send(url, { ...init, headers })
  }
}
