import type { Conversation } from '../../../../src/admin-api/call-views.ts'

/*
 * The bars of a conversation: calls in order with their steps below them, and the parts of the time in which each waited and ran.
 * `conversation.tsx` draws them.
 */

export type ConversationCall = Conversation['calls'][number]

export interface WaterfallRow {
  readonly call: ConversationCall
  /** 0 for a call, 1 for its steps. */
  readonly depth: number
  /** Parts of the width, from 0 to 1. */
  readonly bar: Span
  readonly waits: readonly Span[]
  readonly run: Span | undefined
  readonly waitedMs: number
}

export interface Span {
  readonly from: number
  readonly to: number
}

/** Steps come directly after their call, from first to last. */
export function waterfallOf(calls: readonly ConversationCall[], nowMs: number): readonly WaterfallRow[] {
  const known = new Set(calls.map(({ record }) => record))
  const steps = Map.groupBy(calls, ({ parent }) => (parent !== null && known.has(parent) ? parent : ''))
  const startMs = Math.min(nowMs, ...calls.map(({ created_at: at }) => Date.parse(at)))
  const endMs = Math.max(startMs + 1, ...calls.map((call) => endOf(call, nowMs)))
  const place = (fromMs: number, toMs: number): Span => ({
    from: share(fromMs, startMs, endMs),
    to: share(toMs, startMs, endMs),
  })
  const rowsOf = (call: ConversationCall, depth: number): readonly WaterfallRow[] => [
    rowOf(call, depth, place, nowMs),
    ...(steps.get(call.record) ?? []).flatMap((step) => rowsOf(step, depth + 1)),
  ]
  return (steps.get('') ?? []).flatMap((call) => rowsOf(call, 0))
}

function rowOf(
  call: ConversationCall,
  depth: number,
  place: (fromMs: number, toMs: number) => Span,
  nowMs: number,
): WaterfallRow {
  const end = endOf(call, nowMs)
  const waits = call.waits.map(
    ({ from, until }) => [Date.parse(from), until === null ? nowMs : Date.parse(until)] as const,
  )
  return {
    ...{ call, depth, bar: place(Date.parse(call.created_at), end) },
    waits: waits.map(([from, to]) => place(from, Math.min(to, end))),
    // The last attempt ends with the call.
    run: call.ran_ms === null ? undefined : place(end - call.ran_ms, end),
    waitedMs: waits.reduce((sum, [from, to]) => sum + to - from, 0),
  }
}

function endOf({ finished_at: finished }: ConversationCall, nowMs: number): number {
  return finished === null ? nowMs : Date.parse(finished)
}

function share(atMs: number, startMs: number, endMs: number): number {
  return Math.min(1, Math.max(0, (atMs - startMs) / (endMs - startMs)))
}
