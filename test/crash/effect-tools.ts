import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { tool } from '#core/define-tool'
import { ToolError } from '#core/errors'
import { appendEffect } from './effect-log.ts'
import { between, type Random } from './seeded-random.ts'

const LONGEST_PAUSE_MS = 20
const FLAKY_SHARE = 0.3

/** Tools whose effects can be counted from outside; each gives back the nonce of the effect it had. */
export function makeEffectTools(effectFile: string, random: Random) {
  const input = z.object({ key: z.string().describe('The call id, once more.') })
  const output = z.string()
  const act = async (key: string): Promise<string> => {
    const nonce = randomUUID()
    await wait(between(random, 0, LONGEST_PAUSE_MS))
    appendEffect(effectFile, { key, nonce })
    await wait(between(random, 0, LONGEST_PAUSE_MS))
    return nonce
  }
  return [
    tool({
      id: 'Effect.Write@1.0.0',
      description: 'Has an effect that must not happen twice.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'non-deterministic' },
      run: ({ key }) => act(key),
    }),
    tool({
      id: 'Effect.Idempotent@1.0.0',
      description: 'Has an effect that may happen again after a crash.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'idempotent' },
      run: ({ key }) => act(key),
    }),
    tool({
      id: 'Effect.Flaky@1.0.0',
      description: 'Sometimes refuses before it has an effect that must not happen twice.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'non-deterministic' },
      run: async ({ key }) => {
        if (random() < FLAKY_SHARE) throw new ToolError('Not now; nothing was done.', { canRetry: true })
        return await act(key)
      },
    }),
  ]
}
