import { ToolError, tool } from 'collet'
import { z } from 'zod'
import { Notebook } from '../services/notebook.ts'

const cell = z.union([z.string(), z.number(), z.null()])

/** A tool with state: each session has a private database, which is deleted when the session ends. */
export const run = tool({
  id: 'Notebook.Run@1.0.0',
  description:
    'Runs one SQL statement (SQLite) on the private in-memory database of the session. Tables made by earlier calls of the same session are there; without a session the database is empty and is thrown away after the call.',
  input: z.object({
    sql: z
      .string()
      .min(1)
      .max(100_000)
      .describe('One statement, for reading or writing.')
      .meta({ examples: ['SELECT 1 AS one'] }),
    parameters: z.array(cell).max(1_000).optional().describe('Values for the ? in the statement, in order.'),
  }),
  output: z.object({
    columns: z.array(z.string()).describe('Names of the columns; empty for a statement that gives no rows.'),
    rows: z.array(z.array(cell)).describe('At most 1000 rows.'),
    changes: z.number().int().describe('How many rows the statement changed.'),
  }),
  policy: { safetyTier: 'write', replay: 'non-deterministic', egress: 'none', timeoutMs: 10_000 },
  session: {
    open: () => new Notebook(),
    close: (notebook) => notebook.close(),
    idleMs: 10 * 60_000,
  },
  async run({ sql, parameters = [] }, { session, signal }) {
    const answer = await session.ask({ sql, parameters }, signal)
    if (!answer.ok) throw new ToolError(answer.problem)
    return answer.result
  },
})
