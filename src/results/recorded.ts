import { fault } from '#kernel/base/errors'
import { isJsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallView, Failure } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { pointerOf } from './paths.ts'
import { READ_FORMATS, type ReadRequest, type ResultPart, readPart, type Where } from './read.ts'

/*
 * Results of recorded calls by their handles: `collet://calls/ID` is the value, `collet://calls/ID/content/0` the first content
 * block that an MCP server sent, and a query selects a part (`path`, `offset`, `limit`, `where`, `select`, `format`).
 * MCP, HTTP and the command line read results through it. Invariant: a caller reads exactly the calls that `GET /calls/{id}` shows it.
 */

const SCHEME = 'collet://calls/'

export function handleOf(callId: string): string {
  return SCHEME + encodeURIComponent(callId)
}

export function isHandle(uri: string): boolean {
  return uri.startsWith(SCHEME)
}

/** A parsed handle. */
export interface ResultAddress {
  readonly callId: string
  /** `content`: the content blocks instead of the value. */
  readonly root: 'value' | 'content'
  readonly request: ReadRequest
}

/** Reads a handle or a bare call id; throws a `ToolError` for a handle that cannot be read. */
export function readHandle(text: string): ResultAddress {
  if (!isHandle(text)) return { callId: text, root: 'value', request: {} }
  const [path = '', query = ''] = text.slice(SCHEME.length).split('?', 2)
  const [callId = '', root, ...steps] = path.split('/').map(decode)
  if (callId === '' || (root !== undefined && root !== 'content'))
    throw fault(
      'request_invalid',
      `${JSON.stringify(text.slice(0, 200))} is not the address of a result. Write ${SCHEME}ID or ${SCHEME}ID/content/0.`,
    )
  const { path: inner = '', ...request } = readQuery(new URLSearchParams(query))
  return {
    callId,
    root: root ?? 'value',
    request: { ...request, path: steps.length === 0 ? inner : pointerOf(steps) + inner },
  }
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    throw fault('request_invalid', 'The address of the result has a "%" that is not part of an escape.')
  }
}

const QUERY = ['path', 'offset', 'limit', 'where', 'select', 'format'] as const

/** The parameters of a read, for URI templates. */
export const QUERY_TEMPLATE = `{?${QUERY.join(',')}}`

/** Reads the parameters of an address; `where` is `member=value` or `member~text`. */
export function readQuery(query: URLSearchParams): ReadRequest {
  const format = query.get('format') ?? undefined
  const where = query.get('where') ?? undefined
  const select = query.get('select') ?? undefined
  return checkedRequest({
    path: query.get('path') ?? '',
    offset: numberIn(query, 'offset'),
    limit: numberIn(query, 'limit'),
    where: where === undefined ? undefined : whereOf(where),
    select: select === undefined ? undefined : select.split(','),
    format,
  })
}

/** The parameters of a read before they are checked. */
interface WrittenRequest extends Omit<ReadRequest, 'format'> {
  readonly format?: string | undefined
}

/** Throws a `ToolError` for a range or a format that does not exist. */
export function checkedRequest({ format, ...request }: WrittenRequest): ReadRequest {
  const known = READ_FORMATS.find((name) => name === format)
  if (format !== undefined && known === undefined)
    throw fault('request_invalid', `"format" must be one of ${READ_FORMATS.join(', ')}.`)
  for (const [name, min] of [['offset', 0] as const, ['limit', 1] as const]) {
    const number = request[name]
    if (number !== undefined && (!Number.isSafeInteger(number) || number < min))
      throw fault('request_invalid', `"${name}" must be a whole number of at least ${min}.`)
  }
  return { ...request, format: known }
}

function numberIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name)
  return text === null || text === '' ? undefined : Number(text)
}

function whereOf(text: string): Where {
  const [, member = '', sign, value = ''] = /^([^=~]*)([=~])(.*)$/s.exec(text) ?? []
  if (sign === undefined)
    throw fault('request_invalid', '"where" must be member=value, or member~text for a part of a text.')
  return sign === '=' ? { member, equals: value } : { member, contains: value }
}

/** The readable result of a call that has ended. */
interface RecordedResult {
  readonly callId: string
  readonly tool: string
  readonly value: JsonValue
  readonly content: readonly JsonValue[] | undefined
  readonly untrusted: boolean
}

const NO_CALL = 'You have no call with this id; it may have been made with another credential.'

/** Reads one part of a result; throws a `ToolError` if the caller has no such call, or if it has no result. */
export async function readResult(
  gateway: Pick<Gateway, 'readCall'>,
  principal: Principal,
  { callId, root, request, maxBytes }: ResultAddress & { readonly maxBytes: number },
): Promise<ResultPart & Pick<RecordedResult, 'callId' | 'untrusted'>> {
  const { untrusted, value, content } = await findResult(gateway, principal, callId)
  if (root === 'content' && content === undefined)
    throw fault('request_invalid', 'This result has no content blocks. Leave "/content" out of its address.')
  return { callId, untrusted, ...readPart(root === 'content' ? (content ?? []) : value, request, maxBytes) }
}

export async function findResult(
  gateway: Pick<Gateway, 'readCall'>,
  principal: Principal,
  callId: string,
): Promise<RecordedResult> {
  const view = await gateway.readCall(principal, callId)
  if (view === undefined) throw fault('call_not_found', NO_CALL)
  return resultOf(view)
}

function resultOf({ callId, tool, outcome, untrusted }: CallView): RecordedResult {
  if (outcome === undefined)
    throw fault('request_invalid', 'The call has not ended, so it has no result yet. Try again later.')
  const shared = { callId, tool, untrusted: untrusted === true }
  if (outcome.ok) {
    const value: JsonValue = JSON.parse(outcome.valueJson)
    return { ...shared, value, content: blocksIn(outcome.shown?.contentJson, value) }
  }
  const { error } = outcome
  if (error.code === 'result_expired') throw fault('result_expired', error.message)
  return { ...shared, value: failureValue(outcome), content: blocksIn(error.shown?.contentJson, undefined) }
}

function failureValue({ error: { code, message, shown } }: Failure): JsonValue {
  const structured = shown?.structuredJson === undefined ? undefined : parseJson(shown.structuredJson)
  return { error: { code, message }, ...(structured === undefined ? {} : { structuredContent: structured }) }
}

function blocksIn(
  contentJson: string | undefined,
  value: JsonValue | undefined,
): readonly JsonValue[] | undefined {
  const content = contentJson === undefined ? undefined : parseJson(contentJson)
  const found = content ?? (isJsonObject(value) ? value.content : undefined)
  return Array.isArray(found) ? found : undefined
}
