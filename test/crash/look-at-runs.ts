import { setTimeout as wait } from 'node:timers/promises'
import type { FinalCheck } from './call-history.ts'
import { addressOf, type CrashStage } from './crash-stage.ts'
import type { Reading, SeenEvent } from './run-history.ts'
import { endRun, pollRun } from './run-server.ts'

const CONCURRENT_CHECKS = 8
const STREAM_END_LIMIT_MS = 10_000

export type PolledRuns = ReadonlyMap<string, readonly SeenEvent[]>

/** Polls every run that some reply or request named, each from one server. */
export async function pollRuns(
  stage: CrashStage,
  finalChecks: ReadonlyMap<string, readonly FinalCheck[]>,
): Promise<PolledRuns> {
  const polled = new Map<string, readonly SeenEvent[]>()
  const answered = [...finalChecks.values()].flat().flatMap(({ reply }) => reply.runId ?? [])
  const runIds = new Set([...stage.runs, ...stage.sessions.map(({ runId }) => runId), ...answered]).values()
  const poll = async (server: number): Promise<void> => {
    const address = await addressOf(stage, server)
    for (const runId of runIds) {
      const events = await pollRun(address, runId)
      if (events !== undefined) polled.set(runId, events)
    }
  }
  await Promise.all(
    Array.from({ length: CONCURRENT_CHECKS }, (_, index) => poll(index % stage.servers.length)),
  )
  return polled
}

/** Ends the runs that have readers, in every server, and waits for the streams to end by themselves. */
export async function endReadings(stage: CrashStage, polled: PolledRuns): Promise<readonly Reading[]> {
  for (const runId of stage.readings.keys()) stage.ended.add(runId)
  for (const [server] of stage.servers.entries()) {
    const address = await addressOf(stage, server)
    for (const runId of stage.readings.keys()) await endRun(address, runId)
  }
  // If every first call was cut before its claim, there is no run and nothing to read.
  const readings = Promise.all(
    [...stage.readings].flatMap(([runId, reading]) => (polled.has(runId) ? [reading] : [])),
  )
  const ended = new AbortController()
  const limit = wait(STREAM_END_LIMIT_MS, undefined, { signal: ended.signal }).catch(() => {})
  await Promise.race([readings, limit])
  ended.abort()
  stage.leave.abort()
  return await readings
}
