import { z } from 'zod'
import { type ErrorCode, FAILURE_CODES, fault, isToolError, type ToolError } from '#kernel/base/errors'
import { defined, isRecord, type JsonObject, type JsonValue } from '#kernel/base/json'
import { MESSAGE_LEVELS } from '#kernel/tool/tool'
import { POLICY_SHAPE } from '#sources/common/options'
import type { Invocation } from '#sources/kit/source'
import type { DescribedPack } from './load.ts'

/**
 * The messages between the server and the process of a pack: lines of JSON. `process.ts` and `child.ts` send them.
 * Invariant: the server checks every message from the process before it uses it.
 */

const MAX_TOOLS = 1_000
const MAX_HEADERS = 200
const MAX_TEXT_LENGTH = 100_000

const TEXT = z.string().max(MAX_TEXT_LENGTH)
const NUMBER = z.number().min(1).max(Number.MAX_SAFE_INTEGER)
/** The value was parsed from JSON, so only its outermost type is checked. */
const JSON_OBJECT: z.ZodType<JsonObject> = z.custom<JsonObject>(isRecord)
const JSON_VALUE: z.ZodType<JsonValue> = z.custom<JsonValue>((value) => value !== undefined)
const NEED = z.looseObject({ id: z.string().min(1).max(1_000) })

const REQUIREMENTS = z.looseObject({
  authorization: z
    .array(NEED.extend({ oauth2: z.looseObject({ scopes: z.array(TEXT).exactOptional() }).exactOptional() }))
    .max(100)
    .exactOptional(),
  secrets: z.array(NEED).max(100).exactOptional(),
  userId: z.boolean().exactOptional(),
})

const POLICY = z.strictObject({
  ...POLICY_SHAPE,
  egress: POLICY_SHAPE.egress.exactOptional(),
  scopes: POLICY_SHAPE.scopes.max(100),
  tenants: POLICY_SHAPE.tenants.exactOptional(),
  costHint: POLICY_SHAPE.costHint.exactOptional(),
  latencyHint: POLICY_SHAPE.latencyHint.exactOptional(),
  cost: POLICY_SHAPE.cost.exactOptional(),
  modelBytes: POLICY_SHAPE.modelBytes.exactOptional(),
  project: POLICY_SHAPE.project.max(100).exactOptional(),
  modelFormat: POLICY_SHAPE.modelFormat.exactOptional(),
  identity: POLICY_SHAPE.identity.max(100).exactOptional(),
})

const TOOL = z.strictObject({
  nativeName: z.string().min(1).max(200),
  title: TEXT.exactOptional(),
  description: TEXT,
  inputSchema: JSON_OBJECT,
  outputSchema: JSON_OBJECT.nullable(),
  requirements: REQUIREMENTS.exactOptional(),
  policy: POLICY,
})

/** An error from a pack. Only codes of failed runs are allowed: a pack cannot claim that a call needs authorization or approval. */
const ERROR = z.strictObject({
  /** True for a `ToolError`, whose text is for callers. */
  isToolError: z.boolean(),
  code: z.enum(FAILURE_CODES).catch('tool_failed'),
  message: TEXT,
  developerMessage: TEXT.exactOptional(),
  canRetry: z.boolean(),
  retryAfterMs: z.number().min(0).exactOptional(),
  additionalPromptContent: TEXT.exactOptional(),
  errorNumber: z.number().exactOptional(),
})

const END = z.discriminatedUnion('ok', [
  z.strictObject({ ok: z.literal(true), value: z.unknown().exactOptional() }),
  z.strictObject({ ok: z.literal(false), error: ERROR }),
])

const KEY = { key: z.string().max(1_000).exactOptional() }
const SHOWN = { ...KEY, message: TEXT, untrusted: z.literal(true).exactOptional() }

const QUESTION = z.discriminatedUnion('what', [
  z.strictObject({
    what: z.literal('fetch'),
    url: TEXT,
    init: z.strictObject({
      method: z.string().max(100),
      headers: z.array(z.tuple([TEXT, TEXT])).max(MAX_HEADERS),
      /** The body in base64. */
      body: z.string().exactOptional(),
      redirect: z.enum(['follow', 'error', 'manual']),
    }),
  }),
  z.strictObject({
    what: z.literal('elicit'),
    question: z.discriminatedUnion('mode', [
      z.strictObject({ mode: z.literal('form'), ...SHOWN, schema: JSON_OBJECT }),
      z.strictObject({ mode: z.literal('url'), ...SHOWN, url: TEXT, id: TEXT }),
      z.strictObject({ mode: z.literal('sampling'), params: JSON_OBJECT, ...KEY }),
      z.strictObject({ mode: z.literal('roots'), ...KEY }),
    ]),
  }),
])

const MESSAGE = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('loaded'),
    tools: z.array(TOOL).max(MAX_TOOLS),
    warnings: z.array(TEXT).max(2 * MAX_TOOLS),
  }),
  z.strictObject({ type: z.literal('broken'), message: TEXT }),
  z.strictObject({ type: z.literal('ended'), id: NUMBER, end: END }),
  z.strictObject({ type: z.literal('ask'), id: NUMBER, questionNo: NUMBER, question: QUESTION }),
  z.strictObject({
    type: z.literal('progress'),
    id: NUMBER,
    done: z.number(),
    total: z.number().exactOptional(),
    message: TEXT.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('message'),
    id: NUMBER,
    level: z.enum(MESSAGE_LEVELS),
    data: JSON_VALUE,
    logger: TEXT.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('log'),
    id: NUMBER,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    fields: z.record(z.string(), z.unknown()),
    message: TEXT,
  }),
])

/** The message, or `undefined` if it is not valid: the code of the pack can write to the pipe too. */
export function parseMessage(value: unknown): ToServer | undefined {
  return MESSAGE.safeParse(value).data
}

export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024

/** A message to the process of a pack. */
export type ToChild =
  | { readonly type: 'load'; readonly entry: string; readonly mayStartPrograms: boolean }
  | { readonly type: 'invoke'; readonly id: number; readonly call: SentCall }
  | { readonly type: 'abort'; readonly id: number }
  | { readonly type: 'answer'; readonly id: number; readonly questionNo: number; readonly answer: Answer }

export type ToServer =
  | ({ readonly type: 'loaded' } & DescribedPack)
  | { readonly type: 'ended'; readonly id: number; readonly end: Answer }
  | Exclude<z.output<typeof MESSAGE>, { type: 'loaded' | 'ended' }>

/** A call, with the facts about its caller and the declared credentials that its tool may use. */
export interface SentCall
  extends Pick<Invocation, 'nativeName' | 'input'>,
    Pick<
      Invocation['context'],
      'callId' | 'traceId' | 'principal' | 'userId' | 'claimedUserId' | 'userInfo'
    > {
  readonly tokens: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly effectKey: string
}

export type Question = z.output<typeof QUESTION>

export interface SentResponse {
  readonly status: number
  readonly statusText: string
  readonly headers: readonly (readonly [string, string])[]
  /** In base64. */
  readonly body: string
}

export type Answer =
  | { readonly ok: true; readonly value?: unknown }
  | { readonly ok: false; readonly error: SentError }

/** An error as JSON. An error from the server may have any code. */
type SentError = Omit<z.output<typeof ERROR>, 'code'> & { readonly code: ErrorCode }

const MAX_ERROR_TEXT_LENGTH = 20_000

export function serializeError(error: unknown): SentError {
  const toolError = isToolError(error) ? error : undefined
  const message = error instanceof Error ? error.message : String(error)
  const developerMessage =
    toolError === undefined && error instanceof Error ? error.stack : toolError?.developerMessage
  return defined({
    isToolError: toolError !== undefined,
    code: toolError?.code ?? 'tool_failed',
    message: String(message).slice(0, MAX_ERROR_TEXT_LENGTH),
    developerMessage: developerMessage?.slice(0, MAX_ERROR_TEXT_LENGTH),
    canRetry: toolError?.canRetry ?? false,
    retryAfterMs: Number.isFinite(toolError?.retryAfterMs) ? toolError?.retryAfterMs : undefined,
    additionalPromptContent: toolError?.additionalPromptContent?.slice(0, MAX_ERROR_TEXT_LENGTH),
    errorNumber: toolError?.errorNumber,
  })
}

export function deserializeError(sent: SentError): ToolError | Error {
  const { code, message, developerMessage, retryAfterMs, additionalPromptContent, errorNumber } = sent
  if (!sent.isToolError) return Object.assign(new Error(message), defined({ stack: developerMessage }))
  return fault(code, message, {
    canRetry: sent.canRetry,
    ...defined({ developerMessage, retryAfterMs, additionalPromptContent, errorNumber }),
  })
}
