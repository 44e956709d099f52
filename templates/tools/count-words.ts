import { tool } from 'collet'
import { z } from 'zod'

export const countWords = tool({
  id: 'Text.CountWords@1.0.0',
  // The name that models call.
  name: 'count_words',
  description: 'Counts the words of a text.',
  input: {
    text: z.string().describe('The text.'),
  },
  output: {
    words: z.int(),
  },
  // "pure": the tool changes nothing and reads nothing. A tool that changes something is a "write".
  policy: { safetyTier: 'pure' },
  run({ text }) {
    return { words: text.split(/\s+/).filter((word) => word !== '').length }
  },
})
