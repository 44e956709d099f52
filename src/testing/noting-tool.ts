import { tool } from '#core/define-tool'
import type { PolicyDefinition } from '#core/tool-definition'

export const TEXT = {
  type: 'object',
  properties: { text: { type: 'string', description: 'T.' } },
  required: ['text'],
} as const

/** A tool that notes each run, for tests. */
export function noting(
  id: string,
  effects: string[],
  policy: PolicyDefinition = {},
  act: (text: string) => unknown = (text) => `${text}!`,
) {
  return tool({
    id,
    description: 'Notes.',
    input: TEXT,
    output: {},
    policy,
    run: ({ text }) => {
      effects.push(`${id.split('@')[0]} ${text}`)
      return act(text) as string
    },
  })
}
