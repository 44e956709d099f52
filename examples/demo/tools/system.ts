import { tool } from 'collet'

/** Schemas may also be plain JSON Schema. */
export const getTimestamp = tool({
  id: 'System.GetTimestamp@1.0.0',
  description: 'Retrieves the current system timestamp.',
  input: { type: 'object' },
  output: {
    type: 'object',
    properties: {
      timestamp: { type: 'string', format: 'date-time', description: 'The current system timestamp.' },
    },
    required: ['timestamp'],
  },
  policy: { safetyTier: 'read', replay: 'non-deterministic', egress: 'none' },
  run: () => ({ timestamp: new Date().toISOString() }),
})
