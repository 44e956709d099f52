import { afterEach, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { askingTools } from './mcp-asking-tools.ts'
import { mcpFixtures } from './mcp-fixtures.ts'
import { answerOf, ask, endTalks, events, inSession, nextOf, openSession, startTalk } from './mcp-talk.ts'

const FORM = { elicitation: {} }
const NAME_CALL = { method: 'tools/call', params: { name: 'Ask_Name' } }
const ANN = { action: 'accept', content: { name: 'Ann' } }

afterEach(endTalks)

/** `k-carol` may approve calls of others. */
const APPROVERS = {
  apiKeys: [
    { id: 'alice', key: new Secret('k-alice'), tenant: 'default', scopes: [] },
    {
      id: 'carol',
      key: new Secret('k-carol'),
      tenant: 'default',
      scopes: ['approvals:respond', 'approvals:read'],
    },
  ],
  jwt: undefined,
}

describe('questions in sessions', () => {
  it('MCP-79: a question is a request on the stream of the call; its answer is a separate message', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const session = await openSession(server.url, '2025-06-18', FORM)
    const stream = events(await inSession(server.url, session, { ...NAME_CALL, id: 8 }))
    const question = await nextOf(stream)
    expect(question).toMatchObject({
      method: 'elicitation/create',
      params: { message: 'Name?', requestedSchema: { required: ['name'] } },
    })
    expect(question.params.mode).toBeUndefined()
    expect((await inSession(server.url, session, { id: question.id, result: ANN })).status).toBe(202)
    expect(await nextOf(stream)).toMatchObject({ id: 8, result: { structuredContent: { result: 'Ann' } } })
    expect((await stream.next()).done).toBe(true)
  })

  it.each([
    ['a no', { result: { action: 'decline' } }, 'decline'],
    ['an error', { error: { code: -1, message: 'busy' } }, 'cancel'],
    ['an answer that violates the schema', { result: { action: 'accept', content: { name: 5 } } }, 'cancel'],
    ['an invalid action', { result: { action: 'perhaps' } }, 'cancel'],
  ])('MCP-79: %s is handled', async (_what, answer, outcome) => {
    const { server } = await startTalk(mcpFixtures().tools)
    const session = await openSession(server.url, '2025-11-25', FORM)
    const stream = events(await inSession(server.url, session, { ...NAME_CALL, id: 8 }))
    const { id } = await nextOf(stream)
    await inSession(server.url, session, { id, ...answer })
    expect(await nextOf(stream)).toMatchObject({ result: { structuredContent: { result: outcome } } })
  })

  it('MCP-29, MCP-36: a client without declared capabilities is not asked', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const session = await openSession(server.url)
    const { result } = await answerOf(await inSession(server.url, session, { ...NAME_CALL, id: 1 }))
    expect(result.structuredContent).toEqual({ result: 'decline' })
  })

  it('MCP-79, MCP-23: another process accepts the answer, and serves the same session', async () => {
    const talk = await startTalk(mcpFixtures().tools)
    const other = await talk.another()
    const session = await openSession(talk.server.url, '2025-11-25', FORM)
    const stream = events(await inSession(talk.server.url, session, { ...NAME_CALL, id: 8 }))
    const { id } = await nextOf(stream)
    expect((await inSession(other.url, session, { id, result: ANN })).status).toBe(202)
    expect(await nextOf(stream)).toMatchObject({ id: 8, result: { structuredContent: { result: 'Ann' } } })
    const listed = await inSession(other.url, session, { id: 2, method: 'tools/list' })
    expect(await answerOf(listed)).toMatchObject({ result: { tools: expect.any(Array) } })
  })

  it('MCP-76: a tool is refused forms for secrets or with links', async () => {
    const asks = (message: string, field: string) =>
      tool({
        id: 'Bad.Form@1.0.0',
        description: 'Asks for what it must not.',
        input: {},
        output: {},
        policy: { safetyTier: 'read' },
        run: async (_input, context) => {
          const schema = { type: 'object', properties: { [field]: { type: 'string' } } }
          return (await context.elicit({ mode: 'form', key: 'k', message, schema })).action
        },
      })
    for (const [message, field] of [
      ['Your password?', 'password'],
      ['See https://evil.example', 'ok'],
    ] as const) {
      const { server } = await startTalk([asks(message, field)])
      const call = { method: 'tools/call', params: { name: 'Bad_Form' }, capabilities: FORM }
      expect(await answerOf(await ask(server.url, call))).toMatchObject({ result: { isError: true } })
    }
  })
})

describe('questions without sessions', () => {
  it('MCP-70…74: another process accepts the answer and returns the outcome', async () => {
    const talk = await startTalk(mcpFixtures().tools)
    const other = await talk.another()
    const asked = { ...NAME_CALL, capabilities: FORM }
    const { result } = await answerOf(await ask(talk.server.url, asked))
    expect(result.resultType).toBe('input_required')
    const { requestState } = result
    const params = { ...NAME_CALL.params, inputResponses: { name: ANN }, requestState }
    const again = await answerOf(await ask(other.url, { ...asked, id: 2, params }))
    expect(again).toMatchObject({ id: 2, result: { resultType: 'complete', structuredContent: 'Ann' } })
  })

  it('MCP-71: a client that supports only URLs gets no form', async () => {
    const { server } = await startTalk(askingTools())
    const call = { method: 'tools/call', params: { name: 'test_input_required_result_elicitation' } }
    const answer = await answerOf(
      await ask(server.url, { ...call, capabilities: { elicitation: { url: {} } } }),
    )
    expect(answer).toMatchObject({
      error: { code: -32021, data: { requiredCapabilities: { elicitation: { form: {} } } } },
    })
  })

  it('MCP-83: a disconnect after the question cancels nothing', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const asked = { ...NAME_CALL, capabilities: FORM }
    const leaving = new AbortController()
    const { result } = await answerOf(await ask(server.url, asked, { signal: leaving.signal }))
    leaving.abort()
    const params = { ...NAME_CALL.params, inputResponses: { name: ANN }, requestState: result.requestState }
    const again = await answerOf(await ask(server.url, { ...asked, params }))
    expect(again).toMatchObject({ result: { structuredContent: 'Ann' } })
  })
})

describe('requests that only tools make', () => {
  it('MCP-81: the server never requests sampling or roots from a client, but tools can', async () => {
    const { server } = await startTalk([...mcpFixtures().tools, ...askingTools()])
    const capabilities = { sampling: {}, roots: {} }
    const call = (name: string) => ask(server.url, { method: 'tools/call', params: { name }, capabilities })
    expect(await answerOf(await call('Mail_Delete'))).toMatchObject({ result: { isError: true } })
    const { result } = await answerOf(await call('test_input_required_result_list_roots'))
    expect(result.inputRequests).toEqual({ client_roots: { method: 'roots/list', params: {} } })
  })
})

describe('approvals', () => {
  const call = {
    method: 'tools/call',
    params: { name: 'Mail_Delete' },
    capabilities: { elicitation: { url: {} } },
  }
  const alice = { headers: { Authorization: 'Bearer k-alice' } }

  async function approve(url: string, page: string): Promise<void> {
    const id = page.split('/').at(-1)
    const response = await fetch(`${url}/admin/approvals/${id}/approve`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer k-carol' },
      body: JSON.stringify({}),
    })
    expect(response.status, await response.text()).toBeLessThan(300)
  }

  it('MCP-77, MCP-78: the retry after opening the page waits for the approval, and completes', async () => {
    const { tools, runs } = mcpFixtures()
    const { server } = await startTalk(tools, { auth: APPROVERS })
    const { result } = await answerOf(await ask(server.url, call, alice))
    const { url } = result.inputRequests.approval.params
    const { requestState } = result
    const params = { ...call.params, inputResponses: { approval: { action: 'accept' } }, requestState }
    const waiting = ask(server.url, { ...call, id: 2, params }, alice)
    await approve(server.url, url)
    expect(await answerOf(await waiting)).toMatchObject({
      id: 2,
      result: { resultType: 'complete', content: [] },
    })
    expect(runs.get('Mail.Delete@1.0.0')).toBe(1)
  })

  it('MCP-80: in 2025-11-25 the call is parked, and an equal request continues it', async () => {
    const { tools, runs } = mcpFixtures()
    const { server } = await startTalk(tools, { auth: APPROVERS })
    const open = {
      protocolVersion: '2025-11-25',
      capabilities: call.capabilities,
      clientInfo: { name: 'c', version: '1' },
    }
    const opened = await fetch(`${server.url}/mcp`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...alice.headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: open }),
    })
    const session = opened.headers.get('mcp-session-id') ?? ''
    const request = { id: 9, method: 'tools/call', params: call.params }
    const { error } = await answerOf(await inSession(server.url, session, request, alice))
    await approve(server.url, error.data.elicitations[0].url)
    const done = await inSession(server.url, session, { ...request, id: 10 }, alice)
    expect(await answerOf(done)).toMatchObject({ id: 10, result: { content: [] } })
    expect(done.headers.get('collet-call-id')).toBe(error.data.call_id)
    expect(runs.get('Mail.Delete@1.0.0')).toBe(1)
  })
})
