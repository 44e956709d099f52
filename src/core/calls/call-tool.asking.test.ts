import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { tool } from '#core/tools/define'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'

const asks = tool({
  id: 'Ask.Name@1.0.0',
  description: 'Asks for a name.',
  input: {},
  output: {},
  policy: { safetyTier: 'read', timeoutMs: 50 },
  run: async (_input, context) => {
    const answer = await context.elicit({ mode: 'roots' })
    return answer.action === 'accept' ? (answer.content ?? null) : answer.action
  },
})

describe('a run that asks its caller', () => {
  it('rule 10: the time its caller takes is no run time', async () => {
    const gateway = openTestGateway([asks])
    const ask = async () => {
      await wait(120)
      return { action: 'accept', content: { roots: [] } } as const
    }
    expect(gist(await gateway.call(ALICE, callRequest('Ask.Name', { onElicit: ask })))).toBe(
      'ok {"roots":[]}',
    )
  })

  it('is declined where its protocol cannot ask', async () => {
    const gateway = openTestGateway([asks])
    expect(gist(await gateway.call(ALICE, callRequest('Ask.Name')))).toBe('ok "decline"')
  })

  it('MCP-84: is cancelled when its caller leaves', async () => {
    const gateway = openTestGateway([asks])
    const leaving = new AbortController()
    const ask = () => {
      leaving.abort()
      return new Promise<never>(() => undefined)
    }
    const reply = await gateway.call(
      ALICE,
      callRequest('Ask.Name', { onElicit: ask, leaving: { left: leaving.signal } }),
    )
    expect(gist(reply)).toBe('cancelled')
  })
})
