import { readStart } from '#core/bytes'
import { fault } from '#core/errors'
import { type JsonObject, type JsonValue, setMember } from '#core/json'
import { tooMuchJson } from '#core/json-bounds'
import type { Binding } from './binding.ts'
import { essenceOf, isJson, isTextual } from './operation.ts'

interface AnswerContext {
  readonly binding: Binding
  readonly operation: string
  readonly maxResponseBytes: number
  /** Without the credentials that were sent: a `Link` repeats the address, and so what its query held. */
  redact(text: string): string
}

/** A success as the tool's output. */
export async function readAnswer(response: Response, context: AnswerContext): Promise<JsonValue> {
  const { binding } = context
  if (binding.method === 'head') return { status: response.status, headers: shownHeaders(response, context) }
  const { bytes, isWhole } = await readStart(response.body, context.maxResponseBytes)
  if (!isWhole) {
    throw fault(
      'result_too_large',
      `${context.operation} answered more than ${context.maxResponseBytes} bytes. Ask for less.`,
      {
        developerMessage: 'Raise `maxResponseBytes` of the source, or let callers ask for smaller pages.',
      },
    )
  }
  const body = readBody(bytes, response.headers.get('content-type') ?? '', context)
  const { headers } = binding.response
  if (headers.length === 0) return body
  const told = headers.flatMap((name) => {
    const value = response.headers.get(name)
    return value === null ? [] : [[name, context.redact(value)] as const]
  })
  const next = nextPage(response.headers.get('link'), binding)
  return { body, headers: Object.fromEntries(told), ...(next === undefined ? {} : { next }) }
}

function readBody(bytes: Buffer, mediaType: string, { binding, operation }: AnswerContext): JsonValue {
  const { json, raw } = binding.response
  if (bytes.length === 0) return null
  if (json ? isJson(mediaType) || essenceOf(mediaType) === '' : !raw && isJson(mediaType)) {
    return parseJson(bytes, operation)
  }
  if (json && !raw) {
    throw fault(
      'upstream_failed',
      `${operation} answered ${essenceOf(mediaType)} where its document promises JSON.`,
    )
  }
  const type = mediaType === '' ? 'application/octet-stream' : mediaType
  return isTextual(type)
    ? { mediaType: type, text: decode(bytes, mediaType) }
    : { mediaType: type, base64: bytes.toString('base64') }
}

function parseJson(bytes: Buffer, operation: string): JsonValue {
  const problem = tooMuchJson(bytes)
  if (problem !== undefined)
    throw fault('result_too_large', `${operation} answered JSON that ${problem}. Ask for less.`)
  try {
    const value: JsonValue = JSON.parse(bytes.toString('utf8'))
    return value
  } catch (error) {
    throw fault('upstream_failed', `${operation} answered something that is not JSON although it says so.`, {
      cause: error,
    })
  }
}

const NOT_SHOWN: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'authorization'])

/** An answer to `HEAD` is its headers, without those that carry credentials. */
function shownHeaders({ headers }: Response, { redact }: AnswerContext): JsonObject {
  return Object.fromEntries(
    [...headers].filter(([name]) => !NOT_SHOWN.has(name)).map(([name, value]) => [name, redact(value)]),
  )
}

/** By the charset that the answer names, if there is such a one. */
function decode(bytes: Buffer, mediaType: string): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(mediaType) ?? []
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return bytes.toString('utf8')
  }
}

/**
 * What a `Link` of relation `next` asks for, as members of the input. Only declared query parameters are taken: the
 * next page is another call through the same accepted binding, never an address that an answer names.
 */
function nextPage(link: string | null, { parameters, baseUrl }: Binding): JsonObject | undefined {
  const target = link === null ? undefined : linkTarget(link, 'next')
  const url = target === undefined ? null : URL.parse(target, baseUrl)
  if (url === null) return undefined
  const next: Record<string, JsonValue> = {}
  for (const { property, name, in: place, isNumber } of parameters) {
    const value = place === 'query' ? url.searchParams.get(name) : null
    if (value === null) continue
    const number = Number(value)
    setMember(next, property, isNumber && value !== '' && Number.isFinite(number) ? number : value)
  }
  return Object.keys(next).length === 0 ? undefined : next
}

/** RFC 8288, as far as pages go. */
function linkTarget(header: string, relation: string): string | undefined {
  for (const part of header.slice(0, 8_192).split(/,(?=\s*<)/)) {
    const [, target, parameters = ''] = /^\s*<([^<>]*)>(.*)$/.exec(part) ?? []
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,]+))/i.exec(parameters) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (target !== undefined && relations.includes(relation)) return target
  }
  return undefined
}
