import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gapsIn, takeSomeScores } from '../interop/scoreboard.ts'
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
    'MCP-172, MCP-173: %s has no gap to the reference server, to its own era and crossed',
    async (revision) => {
      const scores = await takeSomeScores(stage, ['through', 'crossed'], revision)
      expect(gapsIn(scores)).toEqual([])
    },
    LIMIT_MS,
  )
})
