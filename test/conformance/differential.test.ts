import fc from 'fast-check'
import { expect, it } from 'vitest'
import { sized } from '../size.ts'
import { batch } from './differential-calls.ts'
import { playBatch, type Tally } from './differential-play.ts'

/** More with `COLLET_DIFFERENTIAL_CASES`; others with `COLLET_DIFFERENTIAL_SEED`, a number of a report or `random`. */
const MIN_CASES = sized(1_000, 20_000)
const USUAL_SEED = 20_261_115
const { COLLET_DIFFERENTIAL_CASES: wanted = MIN_CASES, COLLET_DIFFERENTIAL_SEED: seed } = process.env
const cases = Math.max(MIN_CASES, Number(wanted))
const BATCHES_PER_ROUND = 10
/** Catches hangs only; it is long enough for a busy machine. */
const LIMIT_MS = 60_000 + cases * 500
/** Time limit for shrinking a disagreement. */
const SHRINK_MS = 10_000

/** The exact set of outcomes that the generated calls must produce. */
const REACHED = [
  'approval_required',
  'input_invalid',
  'key_conflict',
  'not_authorized',
  'ok',
  'output_invalid',
  'request_invalid',
  'requirement_missing',
  'result_too_large',
  'session_not_found',
  'tool_failed',
  'tool_not_found',
  'tool_timeout',
]

it(
  'OTC-63, OTS-40, OWP-22, MCP-69: one call gives one value, one error, one decision and one journal over every protocol',
  async () => {
    const tally: Tally = { cases: 0, calls: 0, replays: 0, codes: new Map() }
    const firstSeed = seed === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(seed ?? USUAL_SEED)
    for (let round = 0; tally.cases < cases; round += 1) await playRound(firstSeed + round, tally)
    const { calls, replays, codes } = tally
    const seen = [...codes].map(([code, times]) => `${code} ${times}`).join(', ')
    process.stdout.write(
      `differential: ${tally.cases} cases, ${calls} calls, ${replays} replays, seed ${firstSeed}\n  ${seen}\n`,
    )
    expect([...codes.keys()].sort()).toEqual(REACHED)
    expect(tally.cases).toBeGreaterThanOrEqual(cases)
  },
  LIMIT_MS,
)

async function playRound(roundSeed: number, tally: Tally): Promise<void> {
  let failedAtMs: number | undefined
  const property = fc.asyncProperty(batch, async (generated) => {
    fc.pre(failedAtMs === undefined || performance.now() - failedAtMs < SHRINK_MS)
    try {
      await playBatch(generated, tally)
    } catch (error) {
      failedAtMs ??= performance.now()
      throw error
    }
  })
  const { failed, errorInstance, numShrinks } = await fc.check(property, {
    seed: roundSeed,
    numRuns: BATCHES_PER_ROUND,
    maxSkipsPerRun: 1_000,
  })
  if (!failed) return
  const reason = errorInstance instanceof Error ? errorInstance : new Error(String(errorInstance))
  reason.message = `${reason.message}\n  seed: COLLET_DIFFERENTIAL_SEED=${roundSeed}, made smaller ${numShrinks} times`
  throw reason
}
