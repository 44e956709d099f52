import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import {
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
} from '@modelcontextprotocol/client'
import { type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { decodeMessage, encodeHeaderValue, encodeRequest } from '#protocols/mcp/codec-message'
import { HEADERS, JSON_TYPE, META, STREAM_TYPE } from '#protocols/mcp/wire'
import type { PlainAnswer, SendRequest } from '#sources/kit/source'
import { CALL_BOUNDS, EventLines, MAX_REFUSAL_BYTES, messageCheck } from './answer-bounds.ts'
import { CLIENT, isWireArray, isWireObject, STREAM_ENDED } from './connection.ts'

/** One `tools/call` over HTTP. */
interface BareCall {
  readonly send: SendRequest
  readonly url: URL
  /** Of the source, of the caller and of the session; in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Of the tool's own parameters. */
  readonly paramHeaders: Readonly<Record<string, string>> | undefined
  /** The revision in the era without sessions; `undefined` in the one before. */
  readonly revision: string | undefined
  /** Also its progress token. */
  readonly id: number
  readonly params: JsonObject
  readonly signal: AbortSignal
  /** What came before the answer: progress, questions, news. */
  hear(message: JsonObject): void
  /** When the upstream does not take it, what it says about when to come back. */
  refused(retryAfterMs: number | undefined): void
}

/**
 * Sends a call and reads its answer, by an exchange of ours: the official client and its `fetch` take ten times the processor
 * time of the call they carry. Handshakes, lists and everything that is not a call stay with that client. Throws its errors, so that
 * both ways mean the same. `undefined` = the upstream is elsewhere and took nothing: the official client knows how to follow.
 */
export async function callBarely(call: BareCall): Promise<JsonObject | undefined> {
  const { send, url, signal, id } = call
  const body = encodeRequest(id, 'tools/call', paramsOf(call))
  const answer = await send({ url, method: 'POST', headers: headersOf(call), body, signal })
  const { status } = answer
  if (status >= 300 && status < 400) {
    await beginningOf(answer)
    return undefined
  }
  if (status < 200 || status >= 300) throw await refusalOf(call, answer)
  const type = mediaTypeOf(answer)
  if (type === JSON_TYPE) return await readMessages(call, answer)
  if (type === STREAM_TYPE) return await readStreams(call, answer)
  await beginningOf(answer)
  if (status === 202) throw streamEnded()
  throw new SdkError(SdkErrorCode.ClientHttpUnexpectedContent, `Unexpected content type: ${type}`)
}

/** In the era without sessions every request says everything. */
function paramsOf({ params, id, revision }: BareCall): JsonObject {
  const said = isWireObject(params._meta) ? params._meta : {}
  const envelope =
    revision === undefined
      ? {}
      : {
          [META.protocolVersion]: revision,
          [META.clientInfo]: CLIENT.info,
          [META.clientCapabilities]: CLIENT.capabilities,
        }
  return { ...params, _meta: { ...envelope, ...said, progressToken: id } }
}

function headersOf({ headers, paramHeaders, params, revision }: BareCall): Record<string, string> {
  const sent: Record<string, string> = {}
  for (const [name, value] of Object.entries(paramHeaders ?? {})) sent[name.toLowerCase()] = value
  Object.assign(sent, headers)
  if (revision !== undefined) {
    sent[HEADERS.version] = revision
    sent[HEADERS.method] = 'tools/call'
    if (typeof params.name === 'string') sent[HEADERS.name] = encodeHeaderValue(params.name)
  }
  sent['content-type'] = JSON_TYPE
  sent.accept = ACCEPTED
  return sent
}

const ACCEPTED = `${JSON_TYPE}, ${STREAM_TYPE}`

/** The answer is one message, or with an old upstream a list of some. */
async function readMessages(call: BareCall, answer: PlainAnswer): Promise<JsonObject> {
  const check = messageCheck(CALL_BOUNDS)
  const chunks: Uint8Array[] = []
  for await (const chunk of answer.body) {
    check(chunk)
    chunks.push(chunk)
  }
  const value = parseJson(Buffer.concat(chunks).toString('utf8'))
  for (const message of isWireArray(value) ? value : [value]) {
    const result = resultIn(call, message)
    if (result !== undefined) return result
  }
  throw streamEnded()
}

/** The result, if this is the answer; throws the error that it brings instead of one. Everything else is heard. */
function resultIn(call: BareCall, value: JsonValue | undefined): JsonObject | undefined {
  const decoded = decodeMessage(value)
  if (!decoded.ok || !isWireObject(value)) throw new Error('the answer is no message of JSON-RPC')
  const { message } = decoded
  if (message.kind !== 'response' || Number(message.id) !== call.id) {
    call.hear(value)
    return undefined
  }
  if (!isWireObject(value.error)) return checkedResult(message.result, call.revision !== undefined)
  const { code, message: text, data } = value.error
  throw ProtocolError.fromError(Number(code), typeof text === 'string' ? text : '', data)
}

/** Of a result only its kind is looked at here: what it means is read once, by the one who knows the tool. */
function checkedResult(result: JsonValue | undefined, isModern: boolean): JsonObject {
  if (!isWireObject(result)) throw unreadable('not an object')
  const { resultType, ...rest } = result
  if (!isModern || resultType === 'complete') return rest
  if (resultType !== 'input_required')
    throw unreadable(
      resultType === undefined ? 'missing required resultType' : 'a resultType that is unknown',
    )
  const { inputRequests, requestState } = result
  const asksNothing = !isWireObject(inputRequests) || Object.keys(inputRequests).length === 0
  if (asksNothing && typeof requestState !== 'string')
    throw unreadable('input_required carries neither inputRequests nor requestState')
  return result
}

function unreadable(problem: string): SdkError {
  return new SdkError(SdkErrorCode.InvalidResult, `Invalid result for tools/call: ${problem}`)
}

/** What a stream told before it ended without the answer. */
interface Broken {
  readonly lastId: string | undefined
  readonly retryMs: number | undefined
}

const MAX_RESUMES = 5
const FIRST_PAUSE_MS = 1_000
const PAUSE_GROWS = 1.5

/** An upstream that numbers its events can be asked for the rest of a stream that broke off (MCP-27). */
async function readStreams(call: BareCall, first: PlainAnswer): Promise<JsonObject> {
  let read = await readStream(call, first)
  for (let failures = 0; !('result' in read); ) {
    const { lastId, retryMs } = read
    if (lastId === undefined || failures >= MAX_RESUMES) throw streamEnded()
    await pause(retryMs ?? FIRST_PAUSE_MS * PAUSE_GROWS ** failures, undefined, { signal: call.signal })
    const answer = await resume(call, lastId)
    if (answer === 'never') throw streamEnded()
    if (answer === undefined) failures += 1
    else {
      failures = 0
      const again = await readStream(call, answer)
      read = 'result' in again ? again : { lastId: again.lastId ?? lastId, retryMs: again.retryMs ?? retryMs }
    }
  }
  return read.result
}

/** `undefined` when it did not work this time. */
async function resume(call: BareCall, lastId: string): Promise<PlainAnswer | 'never' | undefined> {
  const { url, send, signal, headers, revision } = call
  const version = revision === undefined ? {} : { [HEADERS.version]: revision }
  const sent = { ...headers, ...version, accept: STREAM_TYPE, 'last-event-id': lastId }
  try {
    const answer = await send({ url, method: 'GET', headers: sent, signal })
    if (answer.status === 200 && mediaTypeOf(answer) === STREAM_TYPE) return answer
    await beginningOf(answer)
    return answer.status === 405 ? 'never' : undefined
  } catch (error) {
    if (signal.aborted) throw error
    return undefined
  }
}

async function readStream(
  call: BareCall,
  { body }: PlainAnswer,
): Promise<Broken | { readonly result: JsonObject }> {
  const lines = new EventLines(CALL_BOUNDS)
  const event = new EventInMaking()
  try {
    for await (const chunk of body) {
      for (const line of lines.take(chunk)) {
        const data = event.take(line)
        const result = data === undefined ? undefined : resultOfEvent(call, data)
        if (result !== undefined) return { result }
        if (lines.isTurnOver()) await nextTurn()
      }
    }
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof SdkError || call.signal.aborted) throw error
  }
  return { lastId: event.lastId, retryMs: event.retryMs }
}

/** A message that nobody can read is left out; the answer may still come. */
function resultOfEvent(call: BareCall, data: string): JsonObject | undefined {
  const value = parseJson(data)
  return decodeMessage(value).ok ? resultIn(call, value) : undefined
}

/** The event that is being received, by the rules of the WHATWG. */
class EventInMaking {
  lastId: string | undefined
  retryMs: number | undefined
  #data: string[] = []
  #name = ''

  /** The data of a message that is whole with this line. */
  take(line: Buffer): string | undefined {
    const text = line.toString('utf8').replace(/\n$/, '')
    if (text === '') return line.length === 0 ? undefined : this.#end()
    const colon = text.indexOf(':')
    const field = colon === -1 ? text : text.slice(0, colon)
    const value = colon === -1 ? '' : text.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#name = value
    else if (field === 'id' && value !== '') this.lastId = value
    else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value)
    return undefined
  }

  #end(): string | undefined {
    const isMessage = this.#name === '' || this.#name === 'message'
    const data = this.#data.join('\n')
    this.#data = []
    this.#name = ''
    return isMessage && data !== '' ? data : undefined
  }
}

/** Code and text of what the upstream says instead of taking the call. */
async function refusalOf(call: BareCall, answer: PlainAnswer): Promise<Error> {
  const { status, headers } = answer
  call.refused(retryAfterMs(headers['retry-after']))
  const text = await beginningOf(answer)
  if (status === 400 && call.revision !== undefined) {
    const value = parseJson(text)
    if (isWireObject(value) && isWireObject(value.error) && Number(value.id) === call.id) {
      const { code, message, data } = value.error
      return ProtocolError.fromError(Number(code), String(message), data)
    }
  }
  const challenge = String(headers['www-authenticate'] ?? '')
  if (status === 403 && /error="?insufficient_scope\b/.test(challenge)) {
    const requiredScope = /scope="([^"]*)"/.exec(challenge)?.[1]
    return new InsufficientScopeError(requiredScope === undefined ? {} : { requiredScope })
  }
  const message = `Error POSTing to endpoint: ${text}`
  return new SdkHttpError(SdkErrorCode.ClientHttpNotImplemented, message, { status, statusText: '', text })
}

/** The text of a body nobody needs the whole of; reading it leaves the connection to the next call. */
async function beginningOf({ body }: PlainAnswer): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= MAX_REFUSAL_BYTES) break
    }
  } catch {
    // What came until then says enough.
  }
  return Buffer.concat(chunks).subarray(0, MAX_REFUSAL_BYTES).toString('utf8')
}

const MAX_WAIT_MS = 3_600_000

export function retryAfterMs(value: string | string[] | null | undefined): number | undefined {
  const seconds = Number(value ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, MAX_WAIT_MS) : undefined
}

function mediaTypeOf({ headers }: PlainAnswer): string {
  const [type = ''] = String(headers['content-type'] ?? '').split(';')
  return type.trim().toLowerCase()
}

function streamEnded(): ProtocolError {
  return new ProtocolError(STREAM_ENDED, 'the stream ended without an answer')
}
