import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import {
  callException,
  type ReadAnswer,
  readAnswer,
  readEnvelope,
  responseNull,
} from '#protocols/opentool/codec-client-answer'
import type { FunctionCall } from '#protocols/opentool/codec-convert-to-json'
import { EVENT_STREAM, PatientWait, readEvents } from './event-stream.ts'
import { readText } from './http.ts'
import { callSending, factsOf, failureOf, noAnswer, type OpenToolCallOptions } from './opentool-exchange.ts'
import type { ClientSettings } from './options.ts'

/** One event of a streamed call: `data`, or whatever else the server calls its events. */
export interface StreamedResult {
  readonly event: string
  readonly id: string
  readonly result: JsonObject
}

/**
 * `POST /streamCall`: results as they come; throws where the stream says `error` (OTS-50 to OTS-52). `timeoutMs` bounds
 * each wait for more. Leaving the loop closes the connection.
 */
export async function* streamCall(
  settings: ClientSettings,
  call: FunctionCall,
  options: OpenToolCallOptions,
): AsyncGenerator<StreamedResult> {
  const sending = callSending(settings, '/streamCall', call, options)
  const facts = factsOf(call, options.idempotencyKey)
  const wait = new PatientWait(options.timeoutMs ?? settings.timeoutMs, [settings.signal, options.signal])
  try {
    const response = await settings.fetch(sending.url, {
      method: 'POST',
      headers: {
        ...(await sending.headers()),
        Accept: 'text/event-stream',
        'Content-Type': 'application/json',
      },
      body: sending.body,
      redirect: 'manual',
      signal: wait.signal,
    })
    const { status } = response
    const accept = (read: ReadAnswer, event: string): StreamedResult => {
      if (!read.ok) throw failureOf(read.exception, { ...facts, status })
      return { event, id: call.id, result: read.result }
    }
    if (status !== 200 || !EVENT_STREAM.test(response.headers.get('content-type') ?? '')) {
      const text = await readText(response, settings.maxResponseBytes, wait.signal)
      yield accept(readAnswer(status, parse(text ?? ''), call.id), 'data')
      return
    }
    for await (const { event, data } of readEvents(response, settings.maxResponseBytes, wait)) {
      // The end of the stream ends the call as well (OTS-52).
      if (event === 'done') return
      if (event !== 'start') yield accept(readEvent(event, data, call.id), event)
    }
  } catch (error) {
    const cut = wait.reasonFor(error)
    if (cut === undefined) throw error
    throw noAnswer(cut, `The call to ${sending.url}`, { ...facts, isCall: true })
  } finally {
    wait.end()
  }
}

/** An `error` event is an envelope, or `{code, message, id}` by itself. */
function readEvent(event: string, data: string, id: string): ReadAnswer {
  const body = parse(data)
  if (!isJsonObject(body)) return { ok: false, exception: responseNull(200) }
  if (event === 'error' && !isJsonObject(body.error))
    return { ok: false, exception: callException(body, 500) }
  return readEnvelope(body, id, 200)
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
