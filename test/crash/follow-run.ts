import { setTimeout as wait } from 'node:timers/promises'
import { addressOf, type CrashStage, pickServer } from './crash-stage.ts'
import type { Address } from './exchange.ts'
import type { Reading, SeenEvent } from './run-history.ts'
import { readEvent, runPath } from './run-server.ts'
import { between } from './seeded-random.ts'

const RETRY_DELAY_MS = 20
/** With several servers a reader moves from one to another, so that not all end up at a server that is never killed. */
const MAX_STAY_MS = 2_000

/** Follows a run over SSE from its first event, resuming wherever a kill cut the stream, until the server ends it. */
export async function followRun(stage: CrashStage, runId: string): Promise<Reading> {
  const events: SeenEvent[] = []
  let resumes = 0
  while (!stage.leave.signal.aborted) {
    const wanted = Math.floor(stage.random() * stage.servers.length)
    const address = await addressOf(stage, pickServer(stage, wanted))
    const stay =
      stage.servers.length === 1
        ? []
        : [AbortSignal.timeout(Math.ceil(between(stage.random, 0, MAX_STAY_MS)))]
    const signal = AbortSignal.any([stage.leave.signal, ...stay])
    const end = await readStream(address, { runId, events, signal })
    if (end === 'ended' && stage.ended.has(runId)) return { runId, events, resumes, ended: true }
    if (end !== 'not there' && events.length > 0) resumes += 1
    await wait(RETRY_DELAY_MS)
  }
  return { runId, events, resumes, ended: false }
}

interface Following {
  readonly runId: string
  /** Grows with each complete frame. */
  readonly events: SeenEvent[]
  readonly signal: AbortSignal
}

async function readStream(
  { url, apiKey }: Address,
  { runId, events, signal }: Following,
): Promise<'ended' | 'broken' | 'not there'> {
  const last = events.at(-1)
  const headers = {
    'x-api-key': apiKey,
    ...(last === undefined ? {} : { 'last-event-id': String(last.sequence) }),
  }
  const response = await fetch(`${url}${runPath(runId)}/events`, { headers, signal }).catch(() => undefined)
  if (response === undefined) return 'broken'
  if (response.status !== 200 || response.body === null) return 'not there'
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ; ) {
    const chunk = await reader.read().catch(() => undefined)
    if (chunk === undefined) return 'broken'
    if (chunk.done) return 'ended'
    const frames = `${rest}${chunk.value}`.split('\n\n')
    rest = frames.pop() ?? ''
    events.push(...frames.filter((frame) => !frame.startsWith(':')).map(readFrame))
  }
}

/** `id`, `event` and `data` must agree (OWP-98). */
function readFrame(frame: string): SeenEvent {
  const [, id, name, data] = /^id: (\d+)\nevent: (\S+)\ndata: (.+)$/.exec(frame) ?? []
  const event = readEvent(data ?? '')
  if (String(event.sequence) === id && event.type === name) return event
  throw new Error(`Expected an event's id and name beside its data, got "${frame}".`)
}
