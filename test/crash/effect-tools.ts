import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { ToolError } from '#kernel/base/errors'
import { type DefinedTool, tool, workflow } from '#kernel/tool/define'
import { appendEffect, counterNonce } from './effect-log.ts'
import { effectKey, FLOW, type FlowStep } from './flow-steps.ts'
import { between, type Random } from './seeded-random.ts'

const MAX_PAUSE_MS = 20
const FLAKY_SHARE = 0.3
const COUNTER_FLAKY_SHARE = 0.1
const APPROVED_FLAKY_SHARE = 0.1
const HELD_MS = 60_000
const COUNTER_IDLE_MS = 3_600_000

/** Tools whose effects can be counted from outside; each returns the nonce of its effect. */
export function makeEffectTools(effectFile: string, random: Random) {
  const input = z.object({ key: z.string().describe('The call id, once more.') })
  const output = z.string()
  const act = async (key: string, nonce: string = randomUUID()): Promise<string> => {
    await wait(between(random, 0, MAX_PAUSE_MS))
    appendEffect(effectFile, { key, nonce })
    await wait(between(random, 0, MAX_PAUSE_MS))
    return nonce
  }
  const write = tool({
    id: 'Effect.Write@1.0.0',
    description: 'Has an effect that must not happen twice.',
    input,
    output,
    policy: { safetyTier: 'write', replay: 'non-deterministic' },
    run: ({ key }) => act(key),
  })
  return [
    write,
    makeFlow(write, input),
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
    tool({
      id: 'Effect.Approved@1.0.0',
      description: 'Has an effect that must not happen twice, nor before it was approved.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'non-deterministic', approval: 'always' },
      run: async ({ key }) => {
        if (random() < APPROVED_FLAKY_SHARE) throw new ToolError('Not now.', { canRetry: true })
        return await act(key)
      },
    }),
    tool({
      id: 'Effect.Held@1.0.0',
      description: 'Has an approved effect, and then never returns.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'non-deterministic', approval: 'always', timeoutMs: HELD_MS },
      run: async ({ key }) => {
        const nonce = await act(key)
        await wait(HELD_MS)
        return nonce
      },
    }),
    tool({
      id: 'Effect.Look@1.0.0',
      description: 'Changes nothing, but its runs are logged.',
      input,
      output,
      policy: { safetyTier: 'read', replay: 'non-deterministic' },
      run: ({ key }) => act(key),
    }),
    tool({
      id: 'Effect.Counter@1.0.0',
      description: 'Counts in its session, with an effect that must not happen twice.',
      input,
      output,
      policy: { safetyTier: 'write', replay: 'idempotent' },
      session: { open: ({ sessionId }) => ({ sessionId, count: 0 }), idleMs: COUNTER_IDLE_MS },
      run: async ({ key }, { session }) => {
        if (random() < COUNTER_FLAKY_SHARE) throw new ToolError('Nothing was counted.', { canRetry: true })
        session.count += 1
        return await act(key, counterNonce(session.sessionId, session.count))
      },
    }),
  ]
}

/** Four effects that must not happen twice, two of them concurrently; returns their nonces. */
function makeFlow(write: DefinedTool, input: z.ZodObject<{ key: z.ZodString }>) {
  return workflow({
    id: FLOW,
    description: 'Has effects in steps.',
    input,
    output: z.string(),
    uses: [write],
    run: async ({ key }, { call }) => {
      const make = (step: FlowStep) => call('Effect.Write', { key: effectKey(key, step) }, { step })
      const first = await make('first')
      const both = await Promise.all([make('left'), make('right')])
      return [first, ...both, await make('last')].join(' ')
    },
  })
}
