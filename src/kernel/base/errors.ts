import type { ShownContent } from '#kernel/tool/tool'
import { defined } from './json.ts'

/**
 * The server's errors: findings in definitions, store errors, the closed union of error codes, and `ToolError`, the
 * class that has such a code. Every folder throws or renders them.
 * Texts for users and models (`message`) and for developers (`developerMessage`) are separate fields; secrets are in neither.
 */

/** One problem in a definition, and its fix. */
export interface Finding {
  /** The id as written, or a placeholder if there is none. */
  readonly toolId: string
  readonly file?: string
  /** Member of the definition, followed by a JSON Pointer for nested values: `input/properties/a`. */
  readonly where: string
  readonly problem: string
  readonly fix: string
}

/**
 * Reports a finding. Checks continue after a finding, so that all findings are reported together. It returns `undefined`, so
 * that a check can write `return report(…)` instead of returning a value.
 */
export type Report = (where: string, problem: string, fix: string) => undefined

export class DefinitionError extends Error {
  override readonly name = 'DefinitionError'
  readonly findings: readonly Finding[]

  constructor(findings: readonly Finding[]) {
    super(describeFindings(findings))
    this.findings = findings
  }
}

function describeFindings(findings: readonly Finding[]): string {
  const groups = Map.groupBy(findings, ({ file, toolId }) =>
    file === undefined ? toolId : `${file}: ${toolId}`,
  )
  const count = findings.length === 1 ? '1 problem' : `${findings.length} problems`
  const blocks = [...groups].map(([heading, group]) =>
    [heading, ...group.map(({ where, problem, fix }) => `  ${where}: ${problem}\n    → ${fix}`)].join('\n'),
  )
  return [`${count} in the tool definitions:`, ...blocks].join('\n\n')
}

export type StoreErrorCode =
  /** The write did not happen. */
  | 'not_written'
  /** The write may or may not have happened. */
  | 'unknown'
  /** Stored data exists but cannot be read; an operator must act, and it is never reported as "not found" (rule 14). */
  | 'unreadable'
  | 'full'

/** The store could not do what was requested. Callers never get this error; they get `not_ready` or `outcome_unknown`. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode

  constructor(code: StoreErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/**
 * Every way a call can end other than with a value. Each protocol has a total table over this union, so a new code
 * does not compile until every protocol handles it.
 */
export type ErrorCode = RefusalCode | FailureCode

/** Codes of refusals, which are made before the tool starts: nothing ran. */
export type RefusalCode = (typeof REFUSAL_CODES)[number]

/** Codes of failures after the tool started, or may have started. */
type FailureCode = (typeof FAILURE_CODES)[number]

export const REFUSAL_CODES = [
  'unauthenticated',
  'request_invalid',
  'version_unsupported',
  'key_conflict',
  'call_not_found',
  'tool_not_found',
  'session_not_found',
  'run_not_found',
  'not_authorized',
  'input_invalid',
  'requirement_missing',
  'approval_required',
  'approval_rejected',
  'rate_limited',
  'budget_exceeded',
  'overloaded',
  'not_ready',
  'internal',
] as const

export const FAILURE_CODES = [
  'tool_failed',
  'tool_timeout',
  'cancelled',
  'upstream_failed',
  'egress_denied',
  'output_invalid',
  'result_too_large',
  'ambiguous',
  'outcome_unknown',
  'result_expired',
  'session_lost',
  'workflow_diverged',
] as const

const REFUSALS: ReadonlySet<string> = new Set(REFUSAL_CODES)

export function isRefusal(code: ErrorCode): code is RefusalCode {
  return REFUSALS.has(code)
}

/** Facts that a tool author may state about a failure. */
export interface ToolErrorOptions {
  /** Detail for logs and developers; never shown to a user or a model. */
  readonly developerMessage?: string
  /**
   * The author's statement that **nothing took effect**, so that the same call may run again. Leave it out
   * if the effect is unknown: after a timeout, a reset connection or an invalid answer.
   */
  readonly canRetry?: boolean
  /** How long a caller should wait before it tries again. */
  readonly retryAfterMs?: number
  /** Text for the model's next attempt, for example a list of valid values. */
  readonly additionalPromptContent?: string
  /** An integer of the author's choice, for protocols whose error codes are numbers. */
  readonly errorNumber?: number
  readonly cause?: unknown
}

/** One problem in an input, worded so that an agent can act on it. */
export interface InputIssue {
  /** Top-level parameter that the issue belongs to; absent if the input as a whole is wrong. */
  readonly parameter?: string
  /** JSON Pointer into the input. */
  readonly pointer: string
  readonly message: string
}

/** The issue as text, with its pointer if it is nested inside its parameter. */
export function describeIssue({ parameter, pointer, message }: InputIssue): string {
  if (parameter === undefined) return message
  const slash = pointer.indexOf('/', 1)
  return slash === -1 ? message : `${pointer.slice(slash)}: ${message}`
}

/** Like `describeIssue`, with the parameter's name, as part of a sentence. */
export function issuePhrase(issue: InputIssue): string {
  const text = describeIssue(issue).replace(/\.$/, '')
  return issue.parameter === undefined ? text : `${issue.parameter}: ${text}`
}

/** One open challenge; `id` is the challenge's id, not the provider's. */
export interface Challenge {
  readonly id: string
  readonly url: string
  readonly checkUrl: string
}

export interface AuthorizationChallenge extends Challenge {
  readonly provider: string
  readonly scopes: readonly string[]
}

export interface MissingRequirements {
  readonly authorization?: readonly AuthorizationChallenge[]
  readonly secrets?: readonly { readonly id: string }[]
  readonly userId?: true
  /** Where an approver can decide, or see that the decision is pending. */
  readonly approval?: Challenge
}

/** The calls that a limit counts: the caller's own, its tenant's, one tool's, or all calls (C6). */
export type LimitScope = 'key' | 'tenant' | 'tool' | 'global'

/** Facts that accompany some codes. Protocols render them, and models may act on them. */
export interface ErrorDetails {
  readonly issues?: readonly InputIssue[]
  readonly missing?: MissingRequirements
  readonly scope?: LimitScope
  /** For an unknown tool name: a suggestion, as a sentence. */
  readonly nextStep?: string
  /** The run that records the refusal, for calls without a record. */
  readonly runId?: string
  /** The request may have taken effect, so no protocol asks the client to repeat it. */
  readonly mayHaveRun?: true
}

/** Phrases about the call id that are appended to messages. */
export const CALL_ID_ADVICE = {
  repeat: ', and with the same call id if you sent one',
  ask: '; ask again with the same call id',
} as const

/** Whether a protocol may suggest when to send the request again. */
export function mayRepeat({ details }: { readonly details?: ErrorDetails | undefined }): boolean {
  return details?.mayHaveRun !== true
}

export interface FaultOptions extends ToolErrorOptions, ErrorDetails {
  /** Content of an MCP server's failure, for callers that use MCP. */
  readonly shown?: ShownContent
}

const TOOL_ERROR_BRAND = Symbol.for('collet.ToolError')

/**
 * The only error class that callers see. Tools throw `new ToolError(message, options)`; the server's own stages use `fault`.
 * `message` is for the user and the model; `developerMessage` is not.
 */
export class ToolError extends Error {
  readonly [TOOL_ERROR_BRAND] = true
  override readonly name = 'ToolError'
  readonly code: ErrorCode = 'tool_failed'
  readonly developerMessage: string | undefined
  readonly canRetry: boolean
  readonly retryAfterMs: number | undefined
  readonly additionalPromptContent: string | undefined
  readonly errorNumber: number | undefined
  readonly details: ErrorDetails = {}
  readonly shown: ShownContent | undefined = undefined

  constructor(message: string, options: ToolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.developerMessage = options.developerMessage
    this.canRetry = options.canRetry ?? false
    this.retryAfterMs = options.retryAfterMs
    this.additionalPromptContent = options.additionalPromptContent
    this.errorNumber = Number.isSafeInteger(options.errorNumber) ? options.errorNumber : undefined
  }
}

/** Advice to an agent about an answer that was too large to read, if it is unknown whether the call writes. */
export const NOT_SHOWN_ADVICE =
  'If the call was meant to change something, do not repeat it; if it only reads, ask for less.'

/** A `ToolError` with one of the server's own codes. */
export function fault(code: ErrorCode, message: string, options: FaultOptions = {}): ToolError {
  const { issues, missing, scope, nextStep, runId, mayHaveRun, shown, ...rest } = options
  const details: ErrorDetails = defined({ scope, issues, missing, nextStep, runId, mayHaveRun })
  return Object.assign(new ToolError(message, rest), { code, details, shown })
}

/**
 * The error for callers while the store is unavailable or full: they may try again, unless the request may have taken
 * effect. `undefined` for other errors, and for stored data that cannot be read, which an operator must handle (rule 14).
 */
export function storeFault(error: unknown): ToolError | undefined {
  if (!(error instanceof StoreError) || error.code === 'unreadable') return undefined
  const [effect, options]: [string, FaultOptions] =
    error.code === 'unknown'
      ? [
          'It is not known whether this request took effect; check whether it did before you repeat it.',
          { mayHaveRun: true },
        ]
      : ['Nothing was changed; try again shortly.', { retryAfterMs: 2_000 }]
  return fault('not_ready', `The server cannot use its store right now. ${effect}`, {
    ...options,
    cause: error,
  })
}

/** Also true for a `ToolError` from another copy of this package, for example in a project with its own installation. */
export function isToolError(value: unknown): value is ToolError {
  return value instanceof ToolError || (value instanceof Error && TOOL_ERROR_BRAND in value)
}
