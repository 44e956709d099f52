import type {
  FailureClass,
  RemoteChallenge,
  RemoteMissing,
  WireFailure,
} from '#protocols/otc/codec-client-reply'

export interface CallFailureOptions extends Partial<Omit<WireFailure, 'class' | 'message'>> {
  readonly toolId?: string
  readonly code?: string
  readonly runId?: string
  readonly status?: number
  readonly retries?: number
  readonly cause?: unknown
}

/** Why a call gave no value. `class` says what to do next; `modelText` is what a model may read. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure'
  readonly class: FailureClass
  /** Exactly what happened, in the words of docs/errors.md; servers of other makers say none. */
  readonly code: string | undefined
  /** The run whose events tell of the call, on servers of this package. */
  readonly runId: string | undefined
  /** For logs and developers; never show it to a user or a model. */
  readonly developerMessage: string | undefined
  /** The server says that the same call may be tried again; absent on the wire means false. */
  readonly canRetry: boolean
  readonly retryAfterMs: number | undefined
  readonly additionalPromptContent: string | undefined
  /** What is wrong, by parameter name. */
  readonly parameterErrors: Readonly<Record<string, string>>
  /** Addresses to show to the user before the call is repeated with the same `callId`. */
  readonly challenges: readonly RemoteChallenge[]
  readonly missing: RemoteMissing | undefined
  readonly toolId: string | undefined
  /** Repeating the call with this id never runs the tool a second time; absent when nothing was sent. */
  readonly callId: string | undefined
  readonly durationMs: number | undefined
  /** HTTP status of the last answer, if there was one. */
  readonly status: number | undefined
  /** How often the call was sent again. */
  readonly retries: number

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
  }

  /** Everything a model needs for its next step, without `developerMessage`. */
  get modelText(): string {
    const parameters = Object.entries(this.parameterErrors)
      .filter(([name, problem]) => !tells(this.message, name, problem))
      .map(([name, problem]) => `- ${name}: ${problem}`)
    return [this.message, ...parameters, this.additionalPromptContent ?? []].flat().join('\n')
  }

  /** What `JSON.stringify` shows is safe for a model too. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { developerMessage: _, cause: __, ...shown } = this
    return { ...shown, message: this.message }
  }
}

/** Whether a message already lists what is wrong with a parameter, at once or one problem after the other. */
function tells(message: string, name: string, problem: string): boolean {
  const isSaid = (text: string): boolean => message.includes(`${name}: ${text.replace(/\.$/, '')}`)
  return isSaid(problem) || problem.split('; ').every(isSaid)
}

/** A failure known before anything is sent. */
export function configFailure(message: string, options: CallFailureOptions = {}): CallFailure {
  return new CallFailure('config', message, options)
}
