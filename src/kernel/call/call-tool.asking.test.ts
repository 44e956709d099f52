import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'

const asks = tool({
  id: 'Ask.Name@1.0.0',
  description: 'Asks for a name.',
  input: {},
  output: {},
  policy: { safetyTier: 'read', timeoutMs: 500 },
  run: async (_input, context) => {
    const answer = await context.elicit({ mode: 'roots' })
    return answer.action === 'accept' ? (answer.content ?? null) : answer.action
  },
})

describe('the context of a run', () => {
  it('has functions that also work detached from it', async () => {
    const apart = tool({
      id: 'Apart.Take@1.0.0',
      description: 'Uses parts of its context by themselves.',
      input: {},
      output: {},
      requirements: { secrets: [{ id: 'pin' }] },
      run: async (_input, { progress, elicit, effectKey, secret, log }) => {
        progress(1, 2, 'half')
        log.info('asked')
        const { action } = await elicit({ mode: 'roots' })
        return [action, effectKey() === effectKey(0), secret('pin').reveal()]
      },
    })
    const received: unknown[] = []
    const given = {
      onProgress: (progress: unknown) => void received.push(progress),
      secrets: new Map([['pin', new Secret('1234')]]),
    }
    const outcome = await openTestGateway([apart]).call(ALICE, callRequest('Apart.Take', given))
    expect(gist(outcome)).toBe('ok ["decline",true,"1234"]')
    expect(received).toEqual([{ done: 1, total: 2, message: 'half' }])
  })
})

describe('a run that asks its caller a question', () => {
  it('rule 10: the time that its caller takes to answer is not run time', async () => {
    const gateway = openTestGateway([asks])
    const ask = async () => {
      await wait(700)
      return { action: 'accept', content: { roots: [] } } as const
    }
    expect(gist(await gateway.call(ALICE, callRequest('Ask.Name', { onElicit: ask })))).toBe(
      'ok {"roots":[]}',
    )
  })

  it('gets `decline` if the protocol cannot ask', async () => {
    const gateway = openTestGateway([asks])
    expect(gist(await gateway.call(ALICE, callRequest('Ask.Name')))).toBe('ok "decline"')
  })

  it('MCP-84: is cancelled when its caller disconnects', async () => {
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
