import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gapsIn, takeSomeScores } from '../interop/scoreboard.ts'
import { openStage, type Stage } from '../interop/stage.ts'
import { REVISIONS, runExtensions } from '../interop/suite-run.ts'

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

  it.each(['through', 'crossed'] as const)(
    'MCP-119, MCP-121, MCP-122: the scenarios of tasks and skills pass %s, with a server of either era',
    async (way) => {
      const results = await runExtensions(stage.urlOf('2026-07-28', way))
      expect(results.size).toBeGreaterThanOrEqual(13)
      const failing = [...results].filter(([, { failed }]) => failed > 0).map(([scenario]) => scenario)
      // Collet waits for a tool that runs only as a task, so it need not refuse clients without tasks (MCP-119).
      expect(failing).toEqual(['tasks-required-task-error'])
    },
    LIMIT_MS,
  )
})
