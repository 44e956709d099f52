/**
 * Reads request bodies: JSON and forms, within the size limit of one body and the memory budget of all bodies.
 * `http/app.ts` reads every body with it; `collet mcp` parses its lines with `parseJsonBody`.
 * Invariant: a parsed value is exact JSON, and every counted byte is released after the reply.
 */

import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { fault, type ToolError } from '#kernel/base/errors'
import {
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  withInexactIntegers,
} from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import { subjectKey } from '#stages/limits/limits'
import { type LimitName, limitRefusal } from '#stages/limits/settings'
import { httpFault } from './exchange.ts'

interface BodyKind {
  readonly mediaType: string
  readonly name: string
  readonly maxBytes: number
  parse(bytes: Buffer): JsonValue
}

const BODY_KINDS = {
  json: {
    mediaType: 'application/json',
    name: 'JSON',
    maxBytes: Number.POSITIVE_INFINITY,
    parse: parseJsonBody,
  },
  /** The fields of a form, each with its last value. A foreign page can send a form too, so routes check its token. */
  form: {
    mediaType: 'application/x-www-form-urlencoded',
    name: 'a form',
    maxBytes: 64 * 1_024,
    parse: (bytes) => Object.fromEntries(new URLSearchParams(bytes.toString('utf8'))),
  },
} as const satisfies Readonly<Record<string, BodyKind>>

/**
 * The body of a request, GET included; `undefined` if the request has no body, even if it has a content type.
 * Throws or rejects with a fault that names what to send. Member names like `__proto__` are data here, `1e400` and
 * lone surrogates are errors, and GET may have a body (OTC-08, OTC-66).
 */
export function readBody(
  raw: IncomingMessage,
  kindName: keyof typeof BODY_KINDS,
  maxBytes: number,
  share: BodyShare,
): MaybePromise<JsonValue | undefined> {
  const { headers } = raw
  const kind = BODY_KINDS[kindName]
  const limitBytes = Math.min(maxBytes, kind.maxBytes)
  if (headers['transfer-encoding'] === undefined) {
    const length = Number(headers['content-length'] ?? 0)
    if (length === 0) return undefined
    checkBodyHeaders(headers, kind)
    if (length > limitBytes) throw tooLarge(limitBytes)
  }
  return new Promise((resolve, reject) => {
    const announced = Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)
    const chunks: Buffer[] = []
    let bytes = 0
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length
      const refusal = bytes > limitBytes ? tooLarge(limitBytes) : share.add(chunk.length)
      if (refusal === undefined) {
        chunks.push(chunk)
        if (bytes < announced) share.wait(stop)
      } else stop(refusal)
    }
    const onEnd = (): void => {
      share.complete()
      const [first] = chunks
      try {
        if (first !== undefined) checkBodyHeaders(headers, kind)
        resolve(first && kind.parse(chunks.length === 1 ? first : Buffer.concat(chunks, bytes)))
      } catch (error) {
        reject(error)
      }
    }
    const onError = (cause: Error): void => {
      stop(fault('request_invalid', 'The connection closed before the body was complete.', { cause }))
    }
    const stop = (error: Error): void => {
      raw.off('data', onData).off('end', onEnd).off('error', onError)
      reject(error)
    }
    raw.on('data', onData).on('end', onEnd).on('error', onError)
  })
}

/** Parses bytes to an exact JSON value. Later stages rely on these checks. */
export function parseJsonBody(bytes: Buffer): JsonValue {
  if (!isUtf8(bytes)) throw fault('request_invalid', 'The body is not UTF-8; send JSON encoded as UTF-8.')
  const decoded = bytes.toString('utf8')
  // Some clients send a byte order mark, and RFC 8259 §8.1 permits ignoring it.
  const text = decoded.charCodeAt(0) === 0xfeff ? decoded.slice(1) : decoded
  const value = parse(text)
  const problem = problemOf(value, text.includes('\\u'), 1)
  if (problem === undefined) return withInexactIntegers(text, value)
  const where = problem.pointer === '' ? 'the body' : shorten(problem.pointer)
  throw fault('request_invalid', `The JSON body cannot be used: at ${where}, ${problem.reason}.`)
}

/** A pointer contains the sender's text and may be as long as the body. */
function shorten(pointer: string): string {
  return pointer.length <= MAX_POINTER_LENGTH ? pointer : `${pointer.slice(0, MAX_POINTER_LENGTH)}…`
}

const MAX_POINTER_LENGTH = 200

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw fault('request_invalid', `The body is not valid JSON${positionIn(cause)}.`, { cause })
  }
}

/** Returns only the position, because the engine's message quotes the body, which may contain secrets. */
function positionIn(error: unknown): string {
  if (!(error instanceof SyntaxError)) return ''
  if (error.message.includes('end of JSON input')) return ': it ends too early'
  const position = /at position (\d+)/.exec(error.message)?.[1]
  return position === undefined ? '' : ` (see position ${position})`
}

/** The media type must match; its parameters are ignored. A foreign page can send types other than JSON (rule 28). */
function checkBodyHeaders(headers: IncomingHttpHeaders, { mediaType, name }: BodyKind): void {
  const type = headers['content-type']
  if (type !== mediaType && type?.split(';', 1)[0]?.trim().toLowerCase() !== mediaType) {
    const came = type === undefined ? 'no Content-Type' : 'another Content-Type'
    throw fault(
      'request_invalid',
      `The body came with ${came}; send ${name} with "Content-Type: ${mediaType}".`,
    )
  }
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw fault('request_invalid', 'The body is encoded; send it without Content-Encoding.')
  }
}

function tooLarge(limitBytes: number): Error {
  return httpFault(413, `The body is larger than ${limitBytes} bytes, the limit of this server.`)
}

const RETRY_MS = 1_000
/** Minimum speed of a body that is not complete. */
const MIN_BYTES_PER_SECOND = 4_096

interface BodyBudgetOptions {
  /** Maximum bytes of all bodies together. */
  readonly maxBytes: number
  /** Maximum bytes of one body. A principal that sends no other body may always send one of this size, if that much memory is free. */
  readonly maxBodyBytes: number
  /** Interval between two checks that bodies are still arriving. */
  readonly checkMs: number
  onRefused(name: LimitName): void
}

/**
 * Counts the bytes of request bodies that this process keeps in memory, from their arrival until the reply. A principal may use at most
 * half of the memory that is then still free, and a tenant at most as much as is then still free. One principal thus takes at most a third
 * of the memory and one tenant at most half, so that some is always left for other callers.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions
  /** Whether there is a limit; without a limit nothing is counted. */
  readonly #isBounded: boolean
  #taken = 0
  readonly #byPrincipal = new Map<string, number>()
  readonly #byTenant = new Map<string, number>()
  readonly #arriving = new Set<BodyShare>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: BodyBudgetOptions) {
    this.#options = options
    this.#isBounded = Number.isFinite(options.maxBytes)
  }

  /** Counts bytes when they arrive, not when they are announced, so that a slow sender does not reserve memory. */
  add(bytes: number, principal: Principal): ToolError | undefined {
    if (!this.#isBounded) return undefined
    const name = this.#exceededLimit(bytes, principal)
    if (name !== undefined) {
      this.#options.onRefused(name)
      return limitRefusal(name, RETRY_MS)
    }
    this.#count(bytes, principal)
    return undefined
  }

  free(bytes: number, principal: Principal): void {
    if (this.#isBounded) this.#count(-bytes, principal)
  }

  #exceededLimit(bytes: number, principal: Principal): LimitName | undefined {
    const { maxBytes, maxBodyBytes } = this.#options
    const free = maxBytes - this.#taken
    if (bytes > free) return 'body_bytes'
    const own = (this.#byPrincipal.get(subjectKey(principal)) ?? 0) + bytes
    if (own > maxBodyBytes && own > (free - bytes) / 2) return 'principal_bodies'
    const shared = (this.#byTenant.get(principal.tenant) ?? 0) + bytes
    return shared > 2 * maxBodyBytes && shared > free - bytes ? 'tenant_bodies' : undefined
  }

  #count(bytes: number, principal: Principal): void {
    this.#taken += bytes
    change(this.#byPrincipal, subjectKey(principal), bytes)
    change(this.#byTenant, principal.tenant, bytes)
  }

  /** Checks from now on that the body arrives fast enough. */
  watch(body: BodyShare): void {
    this.#arriving.add(body)
    this.#timer ??= setInterval(() => this.#check(), this.#options.checkMs).unref()
  }

  forget(body: BodyShare): void {
    this.#arriving.delete(body)
  }

  #check(): void {
    const minBytes = (MIN_BYTES_PER_SECOND * this.#options.checkMs) / 1_000
    for (const body of this.#arriving) if (!body.hasArrived(minBytes)) body.tooSlow()
    if (this.#arriving.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function change(taken: Map<string, number>, key: string, bytes: number): void {
  const now = (taken.get(key) ?? 0) + bytes
  if (now === 0) taken.delete(key)
  else taken.set(key, now)
}

/** The part of a budget that one body takes. */
export class BodyShare {
  readonly #budget: BodyBudget
  #principal: Principal | undefined
  #bytes = 0
  /** Bytes at the last check; `undefined` before the first check. */
  #bytesBefore: number | undefined
  #stop: ((error: Error) => void) | undefined

  constructor(budget: BodyBudget) {
    this.#budget = budget
  }

  /** Sets the principal, before any of the body is read. */
  forPrincipal(principal: Principal): this {
    this.#principal = principal
    return this
  }

  /** Counts bytes; returns the refusal if a limit is exceeded. */
  add(bytes: number): ToolError | undefined {
    if (this.#principal === undefined) return undefined
    const refusal = this.#budget.add(bytes, this.#principal)
    if (refusal === undefined) this.#bytes += bytes
    return refusal
  }

  /** Calls `stop` if the rest of the body does not arrive. */
  wait(stop: (error: Error) => void): void {
    if (this.#stop === undefined) this.#budget.watch(this)
    this.#stop = stop
  }

  complete(): void {
    if (this.#stop !== undefined) this.#budget.forget(this)
    this.#stop = undefined
  }

  /** Whether at least `minBytes` arrived since the last check; true at the first check. */
  hasArrived(minBytes: number): boolean {
    const before = this.#bytesBefore
    this.#bytesBefore = this.#bytes
    return before === undefined || this.#bytes - before >= minBytes
  }

  tooSlow(): void {
    this.#stop?.(
      httpFault(408, `The body arrives too slowly; send at least ${MIN_BYTES_PER_SECOND} bytes a second.`),
    )
    this.complete()
  }

  free(): void {
    this.complete()
    if (this.#bytes === 0 || this.#principal === undefined) return
    this.#budget.free(this.#bytes, this.#principal)
    this.#bytes = 0
  }
}

const MAX_DEPTH = 100

const TOO_DEEP = problem(`it is nested more than ${MAX_DEPTH} levels deep`)

/** Why a parsed value cannot be stored, compared and forwarded exactly. */
interface JsonProblem {
  /** JSON Pointer to the value. */
  readonly pointer: string
  readonly reason: string
}

/**
 * Checks for finite numbers (`1e400` parses to Infinity), well-formed strings and member names, and bounded depth in one
 * pass. Lone surrogates come only from `\u` escapes, so without an escape strings are not checked.
 */
function problemOf(value: JsonValue, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? undefined : problem('the number is too large for a double')
    case 'string':
      return !hasEscapes || value.isWellFormed() ? undefined : problem('the string has a lone surrogate')
    case 'object':
      if (value === null) return undefined
      return isJsonObject(value)
        ? problemInObject(value, hasEscapes, depth)
        : problemInArray(value, hasEscapes, depth)
    case 'boolean':
      return undefined
  }
}

function problemInArray(items: JsonArray, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  if (depth > MAX_DEPTH) return TOO_DEEP
  for (let index = 0; index < items.length; index += 1) {
    const found = problemOf(items[index] ?? null, hasEscapes, depth + 1)
    if (found !== undefined) return { ...found, pointer: `/${index}${found.pointer}` }
  }
  return undefined
}

function problemInObject(object: JsonObject, hasEscapes: boolean, depth: number): JsonProblem | undefined {
  if (depth > MAX_DEPTH) return TOO_DEEP
  for (const name of Object.keys(object)) {
    if (hasEscapes && !name.isWellFormed()) return problem('a member name has a lone surrogate')
    const found = problemOf(object[name] ?? null, hasEscapes, depth + 1)
    if (found !== undefined) return { ...found, pointer: `/${escapeToken(name)}${found.pointer}` }
  }
  return undefined
}

function problem(reason: string): JsonProblem {
  return { pointer: '', reason }
}

/** Escapes a name as RFC 6901 §3 requires. */
function escapeToken(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
