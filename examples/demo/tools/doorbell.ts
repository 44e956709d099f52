import { ToolError, tool } from 'collet'
import { z } from 'zod'

const DOORBELLS: readonly string[] = ['doorbell42', 'doorbell84']

/** A tool without a result. Its error lists the existing ids, so that the next attempt can succeed. */
export const ring = tool({
  id: 'Doorbell.Ring@0.1.0',
  description: 'Rings a doorbell given a doorbell ID.',
  input: z.object({ doorbell_id: z.string().describe('The ID of the doorbell to ring.') }),
  output: null,
  policy: { safetyTier: 'write', replay: 'non-deterministic', egress: 'none' },
  run: ({ doorbell_id }, { log }) => {
    if (!DOORBELLS.includes(doorbell_id)) {
      throw new ToolError('Doorbell ID not found', {
        developerMessage: `The doorbell with ID '${doorbell_id}' does not exist.`,
        canRetry: true,
        additionalPromptContent: `ids: ${DOORBELLS.join(',')}`,
        retryAfterMs: 500,
      })
    }
    log.info({ doorbell: doorbell_id }, 'ding dong')
  },
})
