import { tool } from 'collet'
import { z } from 'zod'

const a = z.number().describe('The first number to add.')
const b = z.number().describe('The second number to add.')
const policy = { safetyTier: 'pure', replay: 'deterministic', egress: 'none' } as const

export const add = tool({
  id: 'Calculator.Add@1.0.0',
  description: 'Adds two numbers together.',
  input: z.object({ a, b }),
  output: z.number().describe('The sum of the two numbers.'),
  policy,
  run: ({ a, b }) => a + b,
})

/** A newer version beside the old one: callers of `@1.0.0` keep the old one. */
export const addThree = tool({
  id: 'Calculator.Add@1.1.0',
  description: 'Adds two or three numbers together.',
  input: z.object({ a, b, c: z.number().optional().describe('A third number to add.') }),
  output: z.number().describe('The sum of the numbers.'),
  policy,
  run: ({ a, b, c }) => a + b + (c ?? 0),
})
