/** The request that every server of the comparison gets, so that all do the same work. */
export const API_KEY = 'bench-key-0123456789abcdef0123456789abcdef'

/** Number of digits of the number that differs between requests. */
export const NUMBER_DIGITS = 12

export const ADD_TOOL = 'Calculator.Add@1.0.0'
export const BUMP_TOOL = 'Counter.Bump@1.0.0'

/** The JSON Schema that `z.object({ a: z.number(), b: z.number() })` publishes. */
export const ADD_INPUT_SCHEMA = {
  type: 'object',
  properties: {
    a: { type: 'number', description: 'The first number.' },
    b: { type: 'number', description: 'The second number.' },
  },
  required: ['a', 'b'],
} as const
