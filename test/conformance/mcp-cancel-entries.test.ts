import { afterAll, describe, expect, it } from 'vitest'
import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
import { endTalks, inSession, openSession, startTalk } from './mcp-talk.ts'

describe('cancelling requests of a session other than tool calls', () => {
  afterAll(endTalks)

  it.each([
    { method: 'prompts/get', params: { name: 'Slow_Prompt' } },
    { method: 'resources/read', params: { uri: 'slow://resource' } },
  ])('MCP-85: $method ends without an answer, and its function is aborted', async ({ method, params }) => {
    const begun = Promise.withResolvers<AbortSignal>()
    const wait = async (signal: AbortSignal): Promise<string> => {
      begun.resolve(signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      return 'too late'
    }
    const { server } = await startTalk([
      prompt({
        id: 'Slow.Prompt@1.0.0',
        description: 'Waits.',
        run: (_args: object, { signal }: { readonly signal: AbortSignal }) => wait(signal),
      }),
      resource({
        id: 'Slow.Resource@1.0.0',
        uri: 'slow://resource',
        description: 'Waits.',
        read: (_request, { signal }) => wait(signal),
      }),
    ])
    const session = await openSession(server.url)
    const asked = inSession(server.url, session, { id: 5, method, params })
    const signal = await begun.promise
    const notice = { method: 'notifications/cancelled', params: { requestId: 5 } }
    expect((await inSession(server.url, session, notice)).status).toBe(202)
    expect(await (await asked).text()).toBe('')
    expect(signal.aborted).toBe(true)
  })
})
