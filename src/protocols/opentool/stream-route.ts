import { randomUUID } from 'node:crypto'
import type { CallReply, Progress } from '#core/call'
import { CALL_ID_HEADER, callIdToHeader, RUN_HEADER } from '#protocols/call-headers'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeEvent, encodeValue, openAnswer } from './codec-answer.ts'
import { type CallParts, encodeReply, type FunctionCall, readFunctionCall } from './function-call.ts'
import { refuseStream } from './refuse.ts'
import { WaitingFrames } from './waiting-frames.ts'
import { STREAM_PATH } from './wire.ts'

const PROGRESS = openAnswer('progress')

/** `POST /streamCall`: the same call, with what the tool reports on its way (OTS-50 to OTS-52). */
export function streamRoute(parts: CallParts): HttpRoute {
  return {
    method: 'POST',
    path: STREAM_PATH,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleStream(request, parts),
    refuse: refuseStream,
  }
}

function handleStream(request: HttpRequest, parts: CallParts): HttpReply {
  const read = readFunctionCall(request, parts)
  if ('status' in read) return read
  // The head leaves before the call is recorded, and it names the call (rule 6).
  const freshId = randomUUID()
  const key = read.call.key ?? freshId
  const waiting = new WaitingFrames()
  const { id } = read.request
  const onProgress = (progress: Progress): void => {
    if (waiting.isEnded) return
    waiting.add(encodeEvent('data', encodeValue(id, PROGRESS, JSON.stringify(progress))))
  }
  // A reader that leaves detaches; the call goes on (rule 10).
  const answer = parts.gateway
    .call(request.principal, { ...read.call, freshId, onProgress })
    .finally(() => waiting.end())
  answer.catch(() => undefined)
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      [CALL_ID_HEADER]: callIdToHeader(key),
      ...(read.call.runId === undefined ? undefined : { [RUN_HEADER]: callIdToHeader(read.call.runId) }),
    },
    body: (ended) => frames(read, { waiting, answer, ended }),
  }
}

interface Streamed {
  readonly waiting: WaitingFrames
  readonly answer: Promise<CallReply>
  readonly ended: AbortSignal
}

/** OTS-52: start, what the tool reports, its value, done; or an error and nothing after it. */
async function* frames(call: FunctionCall, { waiting, answer, ended }: Streamed): AsyncGenerator<string> {
  const { method } = call.request
  ended.addEventListener('abort', () => waiting.end(), { once: true })
  yield encodeEvent('start', JSON.stringify({ start: method }))
  for (let frame = await waiting.next(); frame !== undefined; frame = await waiting.next()) yield frame
  if (ended.aborted) return
  const reply = await answer
  const json = encodeReply(call, reply)
  if (!reply.outcome.ok) {
    yield encodeEvent('error', json)
    return
  }
  yield encodeEvent('data', json)
  yield encodeEvent('done', JSON.stringify({ done: method }))
}
