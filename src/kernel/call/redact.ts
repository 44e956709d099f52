import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { type ClientMessage, type ShownContent, ShownValue } from '#kernel/tool/tool'
import type { CallError, CallRequest } from './call.ts'

/**
 * Removes a call's credentials from everything that leaves it: error texts, results of imported tools, log lines, shown
 * content (OTC/T-20, OWP-58, OWP-75).
 * Each credential is searched for in the encodings in which it may be sent: plain, in JSON, in a query, in base64.
 */

/** Shorter values would match inside ordinary words, and are not treated as secrets. */
const MIN_SECRET_LENGTH = 4
/** Longer values are searched for one by one, because a pattern would start a new comparison at each position. */
const MAX_PATTERN_INPUT = 256
const REDACTED = '[redacted]'
const MAX_DEPTH = 8
/** Twice the maximum depth of a request; deeper results would overflow the stack of recursive readers. */
const MAX_ANSWER_DEPTH = 200

/** A tool's own error without the call's credentials, whether they came from the caller or from the vault. */
export function redactSecrets(error: CallError, request: CallRequest): CallError {
  const clean = cleanerOf(request)
  if (clean === undefined) return error
  return { ...error, message: clean(error.message), ...cleanTexts(error, clean) }
}

function cleanTexts(error: CallError | ToolError, clean: Clean) {
  const cleaned = (text: string | undefined) => (text === undefined ? undefined : clean(text))
  return defined({
    developerMessage: cleaned(error.developerMessage),
    additionalPromptContent: cleaned(error.additionalPromptContent),
  })
}

export function redactText(text: string, request: CallRequest): string {
  return cleanerOf(request)?.(text) ?? text
}

/** Redacts a thrown value for the log. */
export function redactThrown(thrown: unknown, request: CallRequest): unknown {
  const clean = cleanerOf(request)
  return clean === undefined ? thrown : cleanValue(thrown, clean, 0)
}

/** Redacts the fields that a tool writes to the log. */
export function redactLogged(fields: object, request: CallRequest): object {
  const clean = cleanerOf(request)
  if (clean === undefined) return fields
  const cleaned = cleanValue(fields, clean, 0)
  return typeof cleaned === 'object' && cleaned !== null ? cleaned : {}
}

/** Redacts a message for the caller's client. */
export function redactMessage(message: ClientMessage, request: CallRequest): ClientMessage {
  const clean = cleanerOf(request)
  return clean === undefined ? message : { ...message, data: cleanJson(message.data, clean) }
}

/** Redacts the output of an imported tool, which may echo its input (OWP-58). */
export function redactOutput(value: unknown, request: CallRequest): unknown {
  const clean = cleanerOf(request)
  return clean === undefined ? value : cleanOutput(value, clean)
}

/** Redacts the content that an MCP server returned. */
export function redactShown(shown: ShownContent, request: CallRequest): ShownContent {
  const clean = cleanerOf(request)
  return clean === undefined ? shown : cleanShown(shown, clean)
}

type Output = JsonValue | ShownValue | undefined

/** Redacts credentials that come from a source's options instead of a call. */
interface SecretCleaner {
  output(value: Output): Output
  thrown(error: unknown): unknown
}

export function cleanerFor(secrets: readonly Secret[]): SecretCleaner | undefined {
  const clean = makeCleaner(secrets)
  if (clean === undefined) return undefined
  return {
    output: (value) => {
      if (value === undefined) return undefined
      return value instanceof ShownValue ? cleanShownValue(value, clean) : cleanJson(value, clean)
    },
    thrown: (error) => (isToolError(error) ? cleanToolError(error, clean) : cleanValue(error, clean, 0)),
  }
}

function cleanToolError(error: ToolError, clean: Clean): ToolError {
  const { code, canRetry, details, retryAfterMs, errorNumber, cause, shown } = error
  return fault(code, clean(error.message), {
    canRetry,
    ...details,
    ...cleanTexts(error, clean),
    ...defined({ retryAfterMs, errorNumber, shown: shown && cleanShown(shown, clean) }),
    ...(cause === undefined ? {} : { cause: cleanValue(cause, clean, 0) }),
  })
}

type Clean = (text: string) => string

function cleanOutput(value: unknown, clean: Clean): unknown {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof ShownValue) return cleanShownValue(value, clean)
  const copied = copyOf(value)
  // A value that cannot be copied is refused later, when it is serialised.
  return copied === undefined ? value : cleanJson(copied, clean)
}

function copyOf(value: object): JsonValue | undefined {
  try {
    return JSON.parse(JSON.stringify(value))
  } catch (error) {
    if (error instanceof RangeError) throw tooDeep()
    return undefined
  }
}

function cleanShownValue({ value, shown }: ShownValue, clean: Clean): ShownValue {
  return new ShownValue(cleanJson(value, clean), cleanShown(shown, clean))
}

function cleanShown({ content, structuredContent, meta }: ShownContent, clean: Clean): ShownContent {
  return defined({
    content: content?.map((block) => cleanJson(block, clean)),
    structuredContent: structuredContent === undefined ? undefined : cleanJson(structuredContent, clean),
    meta: meta && cleanObject(meta, clean, 0),
  })
}

function cleanObject(value: JsonObject, clean: Clean, depth: number): JsonObject {
  return Object.fromEntries(
    Object.entries(value).map(([name, member = null]) => [clean(name), cleanJson(member, clean, depth + 1)]),
  )
}

function cleanJson(value: JsonValue, clean: Clean, depth = 0): JsonValue {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth >= MAX_ANSWER_DEPTH) throw tooDeep()
  if (!isJsonObject(value)) return value.map((item) => cleanJson(item, clean, depth + 1))
  return cleanObject(value, clean, depth)
}

function tooDeep(): ToolError {
  const message = `The tool ran, but its result is nested more than ${MAX_ANSWER_DEPTH} levels deep. Ask for less.`
  return fault('output_invalid', message, {
    developerMessage: 'A result nested this deeply cannot be searched for credentials.',
  })
}

function cleanValue(value: unknown, clean: Clean, depth: number): unknown {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null)
    return typeof value === 'symbol' ? clean(String(value)) : value
  if (depth >= MAX_DEPTH) return '[deep]'
  if (value instanceof Error) return cleanError(value, clean, depth)
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, clean, depth + 1))
  // Class instances render themselves in unknown ways, so their rendered text is cleaned.
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return clean(rendered(value))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [clean(name), cleanValue(member, clean, depth + 1)]),
  )
}

function cleanError(thrown: Error, clean: Clean, depth: number): Error {
  const { name, message, stack, cause, ...own } = thrown
  const copy = new Error(
    clean(message),
    cause === undefined ? undefined : { cause: cleanValue(cause, clean, depth + 1) },
  )
  const members = cleanValue(own, clean, depth + 1)
  return Object.assign(copy, members, { name: clean(thrown.name), stack: clean(thrown.stack ?? '') })
}

function rendered(value: object): string {
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return '[unprintable]'
  }
}

/** Cleaners are cached by request, because an input may have many texts. */
const cleaners = new WeakMap<CallRequest, { readonly clean: Clean | undefined }>()

function cleanerOf(request: CallRequest): Clean | undefined {
  if (request.tokens.size === 0 && request.secrets.size === 0) return undefined
  const secrets = () => [...request.tokens.values(), ...request.secrets.values()]
  const known = cleaners.get(request) ?? { clean: makeCleaner(secrets()) }
  cleaners.set(request, known)
  return known.clean
}

/** Removes credentials from a text; `undefined` when there are none. */
function makeCleaner(secrets: readonly Secret[]): Clean | undefined {
  const values = secrets
    .map((secret) => secret.reveal())
    .filter((value) => value.length >= MIN_SECRET_LENGTH)
    .flatMap(spellingsOf)
    .sort((left, right) => right.length - left.length)
  if (values.length === 0) return undefined
  const long = values.filter(({ length }) => length > MAX_PATTERN_INPUT)
  // One pattern matches all short values, because an input may have hundreds of thousands of texts.
  const short = values.slice(long.length).map((value) => value.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const pattern = short.length === 0 ? undefined : new RegExp(short.join('|'), 'g')
  return (text) => {
    if (text.length < MIN_SECRET_LENGTH) return text
    const rest = long.reduce(redactValue, text)
    return pattern === undefined ? rest : rest.replace(pattern, REDACTED)
  }
}

function redactValue(text: string, value: string): string {
  return text.length < value.length ? text : text.replaceAll(value, REDACTED)
}

/** The value plain, as in JSON, as in a query, and in both base64 alphabets. */
function spellingsOf(value: string): readonly string[] {
  const bytes = new TextEncoder().encode(value)
  const base64 = btoa(String.fromCharCode(...bytes.subarray(0, 4_096))).replace(/=+$/, '')
  const url = base64.replaceAll('+', '-').replaceAll('/', '_')
  const inJson = JSON.stringify(value).slice(1, -1)
  return [...new Set([value, inJson, encodeURIComponent(value.toWellFormed()), base64, url])]
}
