import { type ErrorCode, fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { FailureClass, RemoteMissing } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './failure.ts'
import type { Fetch } from './http.ts'

/** Answers by which a server says that it did not take the request (rule 9). */
const NOT_TAKEN: ReadonlySet<number> = new Set([429, 503])

/** One call that a server passes on to another: what its requests met tells whether it can have run there. */
export class ForwardedCall {
  readonly #send: Fetch
  /** Who it is passed on to, in messages. */
  readonly #upstream: string
  #isUntouched = true
  #isLost = false

  constructor(send: Fetch, upstream: string, traceparent?: string) {
    this.#send = traceparent === undefined ? send : traced(send, traceparent)
    this.#upstream = upstream
  }

  /** To be used for every request of the call. */
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
      // A refusal of our own will be the same next time.
      if (isToolError(error) && error.code === 'egress_denied') {
        throw new CallFailure('config', error.message, { cause: error })
      }
      throw error
    }
  }

  /** The failure as a tool's own. `canRetry` only where nothing can have taken effect (rule 9). */
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
      // What is missing can be given, and the same call then goes through under the same key.
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

/** What the other server lacks, with its own words and the pages a person has to open. */
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

/** Whether a forwarded call failed because the other server is out of reach, or takes nothing from us. */
export function isOutage(error: unknown): boolean {
  const failure = isToolError(error) ? error.cause : undefined
  return (
    failure instanceof CallFailure && (failure.class === 'transport' || failure.class === 'unauthenticated')
  )
}

/** Every request goes on with the trace of the call it is made for. */
function traced(send: Fetch, traceparent: string): Fetch {
  return (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('traceparent', traceparent)
    return send(url, { ...init, headers })
  }
}
