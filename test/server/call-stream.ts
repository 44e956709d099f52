import type { ChangedCall } from '#admin-api/calls'
import { EventParser } from '#kernel/base/event-stream'

/** A reader of `/admin/calls/events`, and its events. */
export interface CallStream {
  readonly status: number
  readonly changes: readonly ChangedCall[]
  readonly left: readonly string[]
  readonly ready: { readonly missed: boolean } | undefined
  /** The server's reason for ending the stream. */
  readonly end: { readonly code: string; readonly message: string } | undefined
  readonly isOver: boolean
  /** Keep-alive comments of an idle stream. The server checks the credential before each. */
  readonly keepAlives: number
  /** For `Last-Event-ID`. */
  readonly lastId: string | undefined
  close(): Promise<void>
}

export async function followCalls(
  url: string,
  { query = '', ...headers }: Readonly<Record<string, string>> = {},
): Promise<CallStream> {
  const leaving = new AbortController()
  const response = await fetch(`${url}/admin/calls/events?${query}`, { headers, signal: leaving.signal })
  const seen = {
    changes: [] as ChangedCall[],
    left: [] as string[],
    ready: undefined as CallStream['ready'],
    end: undefined as CallStream['end'],
    isOver: false,
    keepAlives: 0,
    lastId: undefined as string | undefined,
  }
  const reading = read(response).finally(() => {
    seen.isOver = true
  })

  async function read({ ok, body }: Response): Promise<void> {
    if (!ok || body === null) return
    const parser = new EventParser(1_000_000)
    for await (const piece of body.pipeThrough(new TextDecoderStream())) {
      for (const [, id] of piece.matchAll(/^id: (.+)$/gm)) seen.lastId = id
      seen.keepAlives += piece.split(': keep-alive\n').length - 1
      for (const { event, data } of parser.read(piece)) take(event, JSON.parse(data))
    }
  }
  function take(event: string, data: Record<string, never>): void {
    if (event === 'ready') seen.ready = { missed: data.missed ?? false }
    else if (event === 'end') seen.end = { code: String(data.code), message: String(data.message) }
    else {
      seen.changes.push(...(data.calls ?? []))
      seen.left.push(...(data.left ?? []))
    }
  }
  return Object.assign(seen, {
    status: response.status,
    async close() {
      leaving.abort()
      await reading.catch(() => undefined)
    },
  })
}
