import { AssertionError } from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import type { OpenedSession } from '#kernel/call/stages'
import { type Batch, visibleTool } from './differential-calls.ts'
import { shownBy } from './differential-differences.ts'
import { factsOf, readJournal } from './differential-facts.ts'
import { Labels, withoutLabels } from './differential-labels.ts'
import { WAYS, type Way } from './differential-lanes.ts'
import type { Answer } from './differential-observation.ts'
import { circumstances, type Played, sessionOf } from './differential-played.ts'
import { compareReplays } from './differential-replays.ts'
import { Disagreement, firstDifference } from './differential-report.ts'
import { openStage, principalOf, type Stage } from './differential-stage.ts'
import { compareSight } from './differential-visibility.ts'

export interface Tally {
  cases: number
  calls: number
  replays: number
  /** Number of answers by code. */
  readonly codes: Map<string, number>
}

/** Time for a late answer to be written, on a busy machine too. */
const LATE_MS = 2_000

/** Makes every call of a batch over every lane and compares them all; throws the first disagreement. */
export async function playBatch(batch: Batch, tally: Tally): Promise<void> {
  const stage = await openStage(
    batch,
    WAYS.map(({ name }) => name),
  )
  try {
    const all = (await Promise.all(WAYS.map((way) => playWay(way, stage, batch)))).filter(
      (one) => one !== undefined,
    )
    compareAnswers(all, batch)
    await untilAgreed(() => compareFacts(all, stage, batch))
    await compareSight(referenceOf(all, { reading: 'as written' }), stage, batch)
    tally.replays += await compareReplays(referenceOf(all, { reading: 'as written' }), stage, batch)
    count(tally, all, batch)
  } finally {
    await stage.close()
  }
}

function count(tally: Tally, all: readonly Played[], batch: Batch): void {
  tally.cases += batch.calls.length
  for (const { way, answers } of all) {
    for (const answer of answers) {
      if (answer === undefined) continue
      tally.calls += 1
      const { code } = answer.observation
      if (way.protocol === 'in process') tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1)
    }
  }
}

async function playWay(way: Way, stage: Stage, batch: Batch): Promise<Played | undefined> {
  const ask = way.ask(stage, batch, way.name)
  if (ask === undefined) return undefined
  const labels = new Labels()
  const sessions = await openSessions(way, { stage, batch, labels })
  const answers: (Answer | undefined)[] = []
  for (const [index, call] of batch.calls.entries()) {
    const answer = await ask(call, sessionOf(call, sessions)).catch((error: unknown) => {
      throw error instanceof AssertionError ? misshapen(error, { batch, index, way }) : error
    })
    answers.push(answer === undefined ? undefined : { ...answer, observation: labels.in(answer.observation) })
  }
  return { way, answers, labels, sessions }
}

/** Reports an answer that violates the schema of its protocol. */
function misshapen(
  { message, expected, actual }: AssertionError,
  { batch, index, way }: { readonly batch: Batch; readonly index: number; readonly way: Way },
): Disagreement {
  const found = { path: `the answer's shape: ${message}`, expected, actual }
  return new Disagreement(batch, index, { way: way.name, reference: 'its ledger', found })
}

/** Sessions that some call names, of tools that keep state. */
async function openSessions(
  way: Way,
  { stage, batch, labels }: { readonly stage: Stage; readonly batch: Batch; readonly labels: Labels },
): Promise<Played['sessions']> {
  const opened = new Map<string, OpenedSession & { readonly caller: number }>()
  for (const { caller, session } of batch.calls) {
    const name = `${caller} ${session}`
    const tool = session === undefined ? undefined : visibleTool(batch, { caller, base: session, suffix: '' })
    if (tool?.isStateful !== true || opened.has(name)) continue
    const made = await stage.gateway.openSession(principalOf(batch, way.name, caller), {
      toolId: tool.catalogId,
    })
    labels.suggest(made.sessionId, `session ${name}`)
    labels.suggest(made.runId, `run of session ${name}`)
    opened.set(name, { ...made, caller })
  }
  return opened
}

function compareAnswers(all: readonly Played[], batch: Batch): void {
  for (const [index, call] of batch.calls.entries()) {
    for (const { way, answers } of all) {
      if (way.protocol === 'in process') continue
      const reference = referenceOf(all, way)
      const [reported, answer] = [reference.answers[index], answers[index]]
      if (reported === undefined || answer === undefined) continue
      const shown = shownBy(way.protocol, reported.observation, circumstances(batch, call, way))
      const isPartly = way.protocol === 'createGateway'
      const expected = isPartly ? withoutLabels(shown) : shown
      const actual = isPartly ? withoutLabels(answer.observation) : answer.observation
      const found = firstDifference(expected, actual)
      if (found === undefined) continue
      throw new Disagreement(batch, index, { way: way.name, reference: reference.way.name, found })
    }
  }
}

function referenceOf(all: readonly Played[], { reading }: Pick<Way, 'reading'>): Played {
  const found = all.find(({ way }) => way.protocol === 'in process' && way.reading === reading)
  if (found === undefined) throw new Error(`no lane reads ${reading}`)
  return found
}

/** A late answer is written after its outcome, in a separate commit, so only a lasting difference counts. */
async function untilAgreed(compare: () => Promise<void>): Promise<void> {
  const untilMs = performance.now() + LATE_MS
  for (;;) {
    try {
      return await compare()
    } catch (error) {
      if (performance.now() > untilMs) throw error
    }
    await wait(10)
  }
}

async function compareFacts(all: readonly Played[], stage: Stage, batch: Batch): Promise<void> {
  const journal = await readJournal(stage)
  const facts = new Map<Played, object>()
  for (const played of all) facts.set(played, await factsOf(played, { stage, batch, journal }))
  for (const played of all) {
    const { way } = played
    // The gateway for code has its own store, which is not accessible.
    if (way.protocol === 'in process' || way.protocol === 'createGateway') continue
    const reference = referenceOf(all, way)
    const found = firstDifference(facts.get(reference), facts.get(played))
    if (found === undefined) continue
    const index = Number(/call (\d+)/.exec(found.path)?.[1] ?? 0)
    throw new Disagreement(batch, index, { way: way.name, reference: reference.way.name, found })
  }
}
