import { useEffect, useEffectEvent, useState } from 'react'
import { EventParser } from '../../../src/kernel/base/event-stream.ts'
import { ApiError, fetchOk } from './client.ts'
import { useSession } from './session.ts'

/*
 * Follows a stream of the server and resumes it after a break. Used by several pages. A reader continues at its last event id.
 */

export interface LiveEvent {
  readonly id: string
  readonly type: string
  readonly data: string
}

/** `waiting`: the connection broke and will be reopened. `stopped`: the server refused the request. */
export type LiveState = 'off' | 'connecting' | 'live' | 'waiting' | 'stopped'

/** Follows a server stream while the component is mounted and resumes it after a break. A `path` of `null` follows nothing. */
export function useLive(path: string | null, onEvent: (event: LiveEvent) => void): LiveState {
  const [state, setState] = useState<LiveState>('off')
  const handle = useEffectEvent(onEvent)
  // A new sign-in reopens the stream.
  const csrf = useSession()?.csrf
  useEffect(() => {
    if (path === null) return setState('off')
    void csrf
    const end = new AbortController()
    void follow(path, { onEvent: (event) => handle(event), onState: setState, signal: end.signal })
    return () => end.abort()
  }, [path, csrf])
  return state
}

interface FollowOptions {
  onEvent(event: LiveEvent): void
  onState(state: LiveState): void
  readonly signal: AbortSignal
}

const FIRST_WAIT_MS = 500
const MAX_WAIT_MS = 15_000

/**
 * Reads server-sent events with `fetch`, because `EventSource` cannot send the session's header. Returns when `signal` aborts or
 * the server refuses the request.
 */
async function follow(path: string, options: FollowOptions): Promise<void> {
  const { onEvent, onState, signal } = options
  let lastId = ''
  let waitMs = FIRST_WAIT_MS
  while (!signal.aborted) {
    onState('connecting')
    try {
      const headers = {
        accept: 'text/event-stream',
        ...(lastId === '' ? {} : { 'last-event-id': lastId }),
      }
      const { body } = await fetchOk(path, { headers, signal })
      onState('live')
      for await (const event of readEvents(body)) {
        if (event.id !== '') lastId = event.id
        waitMs = FIRST_WAIT_MS
        onEvent(event)
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && isPermanent(error.status)) return onState('stopped')
    }
    onState('waiting')
    await pause(waitMs * (0.75 + Math.random() / 2), signal)
    waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)
  }
}

function isPermanent(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

export async function* readEvents(body: ReadableStream<Uint8Array> | null): AsyncGenerator<LiveEvent> {
  if (body === null) return
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const parser = new EventParser(Number.POSITIVE_INFINITY)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      for (const { id = '', event, data } of parser.read(decoder.decode(value, { stream: true })))
        yield { id, type: event, data }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
}
