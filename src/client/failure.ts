import type {
  FailureClass,
  RemoteChallenge,
  RemoteMissing,
  WireFailure,
} from '#protocols/otc/codec-client-reply'

/**
 * `CallFailure`, the only error class of the client. Its `class` tells the caller what to do next. Invariant: `message`,
 * `modelText` and the JSON form are safe for a model; details for developers are in `developerMessage` and `cause`
 * only.
 */

export interface CallFailureOptions extends Partial<Omit<WireFailure, 'class' | 'message'>> {
  readonly toolId?: string
  readonly code?: string
  readonly runId?: string
  readonly status?: number
  readonly retries?: number
  readonly replayed?: boolean
  readonly cause?: unknown
}

/** Why a call returned no value. `class` decides the next step; `modelText` is safe for a model. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure'
  readonly class: FailureClass
  /** The stable code from docs/errors.md; only Collet servers send it. */
  readonly code: string | undefined
  /** The run that records the call; only Collet servers send it. */
  readonly runId: string | undefined
  /** For logs and developers; never show it to a user or a model. */
  readonly developerMessage: string | undefined
  /** True if the server allows the same call to be repeated; absent on the wire means false. */
  readonly canRetry: boolean
  readonly retryAfterMs: number | undefined
  readonly additionalPromptContent: string | undefined
  /** Problems by parameter name. */
  readonly parameterErrors: Readonly<Record<string, string>>
  /** Addresses to show to the user before the call is repeated with the same `callId`. */
  readonly challenges: readonly RemoteChallenge[]
  readonly missing: RemoteMissing | undefined
  readonly toolId: string | undefined
  /** Repeating the call with this id never runs the tool a second time; absent if nothing was sent. */
  readonly callId: string | undefined
  readonly durationMs: number | undefined
  /** HTTP status of the last answer, if there was one. */
  readonly status: number | undefined
  /** How often the call was sent again. */
  readonly retries: number
  /** The failure was recorded by an earlier request with this call id; only Collet servers send it. */
  readonly replayed: boolean

  constructor(kind: FailureClass, message: string, options: CallFailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.class = kind
    this.code = options.code
    this.runId = options.runId
    this.developerMessage = options.developerMessage
    this.canRetry = options.canRetry ?? false
    this.retryAfterMs = options.retryAfterMs
    this.additionalPromptContent = options.additionalPromptContent
    this.parameterErrors = options.parameterErrors ?? {}
    this.missing = options.missing
    this.challenges = [...(options.missing?.authorization ?? []), ...(options.missing?.approval ?? [])]
    this.toolId = options.toolId
    this.callId = options.callId
    this.durationMs = options.durationMs
    this.status = options.status
    this.retries = options.retries ?? 0
    this.replayed = options.replayed ?? false
  }

  /** Everything a model needs for its next step, without `developerMessage`. */
  get modelText(): string {
    const parameters = Object.entries(this.parameterErrors)
      .filter(([name, problem]) => !includesProblem(this.message, name, problem))
      .map(([name, problem]) => `- ${name}: ${problem}`)
    return [this.message, ...parameters, this.additionalPromptContent ?? []].flat().join('\n')
  }

  /** Leaves out the members that are not safe for a model. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { developerMessage: _, cause: __, ...shown } = this
    return { ...shown, message: this.message }
  }
}

/** True if a message already contains the problem of a parameter, as a whole or in parts. */
function includesProblem(message: string, name: string, problem: string): boolean {
  const isIncluded = (text: string): boolean => message.includes(`${name}: ${text.replace(/\.$/, '')}`)
  return isIncluded(problem) || problem.split('; ').every(isIncluded)
}

/** A failure detected before anything is sent. */
export function configFailure(message: string, options: CallFailureOptions = {}): CallFailure {
  return new CallFailure('config', message, options)
}
