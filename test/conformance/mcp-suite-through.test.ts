import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { explain, gapsIn, OPEN, takeSomeScores } from '../interop/scoreboard.ts'
import { openStage, type Stage } from '../interop/stage.ts'
import { REVISIONS } from '../interop/suite-run.ts'

const LIMIT_MS = 240_000

/** `npm run conformance` also runs Collet's own tools and the client suite, and writes the page. */
describe('the official MCP suite through Collet to reference servers of both eras', () => {
  let stage: Stage

  beforeAll(async () => {
    stage = await openStage()
  }, LIMIT_MS)
  afterAll(() => stage.close())

  it.each(REVISIONS)(
    'MCP-172, MCP-173: %s has no other gap to the reference server than the known ones, to its own era and crossed',
    async (revision) => {
      const scores = await takeSomeScores(stage, ['through', 'crossed'], revision)
      const gaps = gapsIn(scores).filter((gap) => explain(gap) === undefined && !OPEN.has(gap.scenario))
      expect(gaps).toEqual([])
    },
    LIMIT_MS,
  )
})
