import { useEffect, useRef, useState } from 'react'
import type { ProbedSource as Found } from '../../../../src/admin-api/sources.ts'
import { fetchOk } from '../../api/client.ts'
import { type LiveEvent, readEvents } from '../../api/live.ts'
import { messageOf } from '../../parts/states.tsx'

/*
 * Runs one inspection of a source. Used by `add-source.tsx` and `found-source.tsx`. Leaving the page stops it and the program that
 * it started.
 */

export type { ProbedSource as Found } from '../../../../src/admin-api/sources.ts'

/** The state of an inspection. */
export type ProbeState =
  | { readonly kind: 'idle' }
  | {
      readonly kind: 'inspecting'
      readonly step: string
      readonly lines: readonly string[]
      readonly seconds: number
    }
  | { readonly kind: 'found'; readonly found: Found }
  | {
      readonly kind: 'failed'
      readonly message: string
      readonly seen: readonly string[]
      readonly lines: readonly string[]
    }

export function useProbe(): {
  readonly state: ProbeState
  start(target: string, apiKey: string): Promise<void>
  stop(): void
} {
  const [state, setState] = useState<ProbeState>({ kind: 'idle' })
  const controller = useRef<AbortController>(undefined)
  useEffect(() => () => controller.current?.abort(), [])
  const isInspecting = state.kind === 'inspecting'
  useEffect(() => {
    if (!isInspecting) return undefined
    const timer = setInterval(
      () =>
        setState((before) =>
          before.kind === 'inspecting' ? { ...before, seconds: before.seconds + 1 } : before,
        ),
      1000,
    )
    return () => clearInterval(timer)
  }, [isInspecting])
  return {
    state,
    stop() {
      controller.current?.abort()
      setState({ kind: 'idle' })
    },
    async start(target, apiKey) {
      const ends = new AbortController()
      controller.current = ends
      const { signal } = ends
      setState({ kind: 'inspecting', step: 'Contacting the server', lines: [], seconds: 0 })
      try {
        const body = { target, ...(apiKey === '' ? {} : { api_key: apiKey }) }
        const headers = { accept: 'text/event-stream' }
        const answer = await fetchOk('/admin/sources/probe', { method: 'POST', body, headers, signal })
        for await (const event of readEvents(answer.body)) setState((before) => after(before, event))
        setState((before) => (before.kind === 'inspecting' ? { ...FAILED, lines: before.lines } : before))
      } catch (error) {
        if (!signal.aborted) setState({ ...FAILED, message: messageOf(error) })
      }
    },
  }
}

const FAILED = { kind: 'failed', message: 'The server stopped the inspection.', seen: [], lines: [] } as const

function after(before: ProbeState, { type, data }: LiveEvent): ProbeState {
  const lines = before.kind === 'inspecting' ? before.lines : []
  const seconds = before.kind === 'inspecting' ? before.seconds : 0
  switch (type) {
    case 'step':
      return { kind: 'inspecting', step: textIn(data), lines, seconds }
    case 'line':
      return before.kind === 'inspecting' ? { ...before, lines: [...lines, textIn(data)] } : before
    case 'found': {
      const found: Found = JSON.parse(data)
      return { kind: 'found', found }
    }
    case 'failed': {
      const { message, seen }: { message: string; seen: readonly string[] } = JSON.parse(data)
      return { kind: 'failed', message, seen, lines: withoutRepetition(lines) }
    }
    default:
      return before
  }
}

/** A program that exits at the first request is started again with the older protocol, and often prints the same again. */
export function withoutRepetition(lines: readonly string[]): readonly string[] {
  const half = lines.slice(0, lines.length / 2)
  const isRepeated = lines.length % 2 === 0 && half.every((line, at) => line === lines[half.length + at])
  return isRepeated ? half : lines
}

function textIn(data: string): string {
  const { text }: { readonly text: string } = JSON.parse(data)
  return text
}
