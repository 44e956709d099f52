import type { Logger } from '#core/runtime'
import { type Span, toOtlp } from './otlp.ts'

export interface SpanExporter {
  /** Queues a span; drops it when the collector cannot keep up. Never throws, never waits. */
  export(span: Span): void
  /** Sends what is queued, within the time limit of one request. */
  close(): Promise<void>
}

export interface SpanExporterOptions {
  /** Base URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`. */
  readonly endpoint: string
  readonly log: Logger
  readonly fetch?: typeof fetch
  readonly flushEveryMs?: number
}

const MOST_QUEUED = 4_096
const MOST_PER_REQUEST = 512
const FLUSH_EVERY_MS = 1_000
const REQUEST_TIMEOUT_MS = 5_000

/** Sends spans in batches, one request at a time: a slow collector costs spans, never calls. */
export function createSpanExporter(options: SpanExporterOptions): SpanExporter {
  const { log } = options
  const send = options.fetch ?? fetch
  const url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`
  let queue: Span[] = []
  let dropped = 0
  let isFailing = false
  let sending: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  const post = async (batch: readonly Span[]): Promise<void> => {
    try {
      const response = await send(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(toOtlp(batch)),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      })
      await response.body?.cancel()
      if (!response.ok) throw new Error(`The trace collector answered ${response.status}.`)
      if (isFailing) log.info({ dropped }, 'traces are exported again')
      isFailing = false
      dropped = 0
    } catch (err) {
      dropped += batch.length
      if (!isFailing) log.warn({ err, url }, 'traces cannot be exported; spans are dropped until they can')
      isFailing = true
    }
  }

  const flush = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, MOST_PER_REQUEST)
      queue = queue.slice(MOST_PER_REQUEST)
      await post(batch)
      if (isFailing) return
    }
  }

  const startFlush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    sending ??= flush().finally(() => {
      sending = undefined
      if (queue.length > 0) schedule()
    })
    return sending
  }

  const schedule = (): void => {
    timer ??= setTimeout(startFlush, options.flushEveryMs ?? FLUSH_EVERY_MS).unref()
  }

  return {
    export(span) {
      if (queue.length >= MOST_QUEUED) {
        dropped += 1
        return
      }
      queue.push(span)
      if (queue.length >= MOST_PER_REQUEST) void startFlush()
      else schedule()
    },
    async close() {
      await sending
      await startFlush()
      clearTimeout(timer)
    },
  }
}
