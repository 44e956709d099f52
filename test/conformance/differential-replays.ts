import { LATEST } from '#kernel/base/ids'
import type { Batch, CallPlan } from './differential-calls.ts'
import { shownBy } from './differential-differences.ts'
import { readJournal } from './differential-facts.ts'
import { WAYS, type Way } from './differential-lanes.ts'
import type { Answer } from './differential-observation.ts'
import { circumstances, type Played, sessionOf } from './differential-played.ts'
import { READINGS } from './differential-reading.ts'
import { Disagreement, firstDifference } from './differential-report.ts'
import type { Stage } from './differential-stage.ts'

/** Replays per batch; each goes over every lane. */
const MAX = 8

/**
 * Rule 1: the outcome recorded under a key is replayed to the same principal over every protocol, and nothing runs again.
 * Returns the number of replays.
 */
export async function compareReplays(written: Played, stage: Stage, batch: Batch): Promise<number> {
  const recorded = await askAgain(written, stage, batch)
  const before = (await readJournal(stage)).length
  let asked = 0
  for (const way of WAYS) {
    if (way.protocol === 'createGateway') continue
    const ask = way.ask(stage, batch, written.way.name)
    if (ask === undefined) continue
    for (const [index, answer] of recorded) {
      const call = batch.calls[index]
      if (call === undefined || !isSameRequest(batch, call, way)) continue
      asked += 1
      const actual = await ask(call, sessionOf(call, written.sessions))
      check(written, { batch, index, call, way, answer, actual })
    }
  }
  const rows = (await readJournal(stage)).length - before
  if (rows === 0) return asked
  const found = { path: '/journal', expected: 0, actual: rows }
  throw new Disagreement(batch, 0, { way: 'replays over all lanes', reference: 'no new rows', found })
}

/** Calls with a final outcome, by their place. */
async function askAgain(
  { way, labels, sessions }: Played,
  stage: Stage,
  batch: Batch,
): Promise<ReadonlyMap<number, Answer>> {
  const found = new Map<number, Answer>()
  const ask = way.ask(stage, batch, way.name)
  for (const [index, call] of batch.calls.entries()) {
    if (call.key === undefined || found.size >= MAX) continue
    const answer = await ask?.(call, sessionOf(call, sessions))
    if (answer?.replayed !== true) continue
    found.set(index, { ...answer, observation: labels.in(answer.observation) })
  }
  return found
}

/** True if the lane reads the call as the recorded one was read, or names no version; otherwise it is another request (rule 5). */
function isSameRequest(batch: Batch, call: CallPlan, { reading }: Way): boolean {
  const written = READINGS['as written'](batch, call)
  const read = READINGS[reading](batch, call)
  const meant =
    written.kind === 'call' && read.kind === 'call' && read.ref.version === LATEST
      ? { ...read, ref: { ...read.ref, version: written.ref.version } }
      : read
  return firstDifference(written, meant) === undefined
}

interface Replayed {
  readonly batch: Batch
  readonly index: number
  readonly call: CallPlan
  readonly way: Way
  readonly answer: Answer
  readonly actual: Answer | undefined
}

function check({ labels, way: recording }: Played, replay: Replayed): void {
  const { batch, index, call, way, answer, actual } = replay
  const { protocol } = way
  const expected =
    protocol === 'in process'
      ? answer.observation
      : shownBy(protocol, answer.observation, circumstances(batch, call, way))
  const found = firstDifference(expected, actual === undefined ? undefined : labels.in(actual.observation))
  if (found === undefined) return
  throw new Disagreement(batch, index, { way: `a replay over ${way.name}`, reference: recording.name, found })
}
