import { afterEach, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { testSettings } from '../test-settings.ts'
import { mcpFixtures } from './mcp-fixtures.ts'
import { Gate } from './mcp-gate.ts'
import { answerOf, ask, endTalks, events, inSession, nextOf, openSession, startTalk } from './mcp-talk.ts'

const EXTENSION = 'io.modelcontextprotocol/tasks'
const TASKS = { extensions: { [EXTENSION]: {} } }
const RELATED = 'io.modelcontextprotocol/related-task'
/** Calls become tasks immediately. */
const SOON = { mcp: { ...testSettings().mcp, taskAfterMs: 1 } }

const PERSON = {
  type: 'object',
  properties: { name: { type: 'string' } },
  required: ['name'],
} as const
const ANN = { action: 'accept', content: { name: 'Ann' } }

const KEYS = {
  apiKeys: [
    { id: 'alice', key: new Secret('k-alice'), tenant: 'default', scopes: [] },
    { id: 'bob', key: new Secret('k-bob'), tenant: 'default', scopes: [] },
    {
      id: 'carol',
      key: new Secret('k-carol'),
      tenant: 'default',
      scopes: ['approvals:respond', 'approvals:read'],
    },
  ],
  jwt: undefined,
}
const as = (who: string) => ({ headers: { Authorization: `Bearer k-${who}` } })

afterEach(endTalks)

/** A tool that asks for a name once the test lets it. */
function asker(gate: Gate) {
  return tool({
    id: 'Ask.Later@1.0.0',
    description: 'Asks later.',
    input: {},
    output: { type: 'string' },
    policy: { safetyTier: 'write' },
    async run(_input, { elicit }) {
      await gate.opened
      const answer = await elicit({ mode: 'form', message: 'Name?', schema: PERSON })
      return answer.action === 'accept' ? String(answer.content?.name) : answer.action
    },
  })
}

interface Client {
  readonly url: string
  readonly capabilities?: object
  readonly who?: string
}

async function request({ url, capabilities = TASKS, who }: Client, method: string, params: object = {}) {
  return await answerOf(await ask(url, { method, params, capabilities }, who === undefined ? {} : as(who)))
}

/** Polls until the task has the status, without pauses. */
async function until(client: Client, taskId: string, status: string) {
  for (;;) {
    const { result, error } = await request(client, 'tasks/get', { taskId })
    if (error !== undefined) throw new Error(error.message)
    if (result.status === status) return result
    if (['completed', 'failed', 'cancelled'].includes(result.status))
      throw new Error(`it is ${result.status}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

describe('the extension of 2026-07-28', () => {
  it('MCP-120, MCP-121, MCP-122: a long call is answered with a task, which later has the result', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool('read')], SOON)
    const { result } = await request(server, 'tools/call', { name: 'Gate_Pass' })
    expect(result).toMatchObject({
      resultType: 'task',
      status: 'working',
      ttlMs: 86_400_000,
      pollIntervalMs: 1_000,
    })
    expect(result.taskId).toBe(result._meta['collet/callId'])
    expect(await request(server, 'tasks/get', { taskId: result.taskId })).toMatchObject({
      result: { resultType: 'complete', status: 'working' },
    })
    gate.open('yes')
    const done = await until(server, result.taskId, 'completed')
    expect(done.result).toMatchObject({ resultType: 'complete', structuredContent: 'yes' })
    expect(gate.runs).toBe(1)
  })

  it('MCP-121: a quick call is answered at once, and a client without the extension waits', async () => {
    const gate = new Gate()
    const { server } = await startTalk([...mcpFixtures().tools, gate.tool('read')], SOON)
    const waiting = request({ ...server, capabilities: {} }, 'tools/call', { name: 'Gate_Pass' })
    await gate.begun
    gate.open()
    expect(await waiting).toMatchObject({ result: { resultType: 'complete', structuredContent: 'through' } })
    const slow = { mcp: { ...SOON.mcp, taskAfterMs: 60_000 } }
    const other = await startTalk(mcpFixtures().tools, slow)
    expect(
      await request(other.server, 'tools/call', { name: 'Math_Add', arguments: { a: 1, b: 2 } }),
    ).toMatchObject({
      result: { resultType: 'complete', structuredContent: 3 },
    })
  })

  it('MCP-120: a client that did not declare the extension has no tasks', async () => {
    const { server } = await startTalk(mcpFixtures().tools, SOON)
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { error } = await request({ ...server, capabilities: {} }, method, {
        taskId: 'x',
        inputResponses: {},
      })
      expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: TASKS } })
    }
    const listen = { notifications: { taskIds: ['x'] } }
    expect(await request({ ...server, capabilities: {} }, 'subscriptions/listen', listen)).toMatchObject({
      error: { code: -32021 },
    })
  })

  it('MCP-122: questions of the tool are in the task, and an answer continues it, on another server too', async () => {
    const gate = new Gate()
    const talk = await startTalk([asker(gate)], SOON)
    const other = await talk.another()
    const capabilities = { ...TASKS, elicitation: {} }
    const client = { url: talk.server.url, capabilities }
    const { result } = await request(client, 'tools/call', { name: 'Ask_Later' })
    gate.open()
    const elsewhere = { url: other.url, capabilities }
    const { inputRequests } = await until(elsewhere, result.taskId, 'input_required')
    const [[key, question] = []] = Object.entries(inputRequests)
    expect(question).toMatchObject({ method: 'elicitation/create', params: { message: 'Name?' } })
    const wrong = { [key ?? '']: { action: 'accept', content: { name: 5 } } }
    expect(
      await request(elsewhere, 'tasks/update', { taskId: result.taskId, inputResponses: wrong }),
    ).toMatchObject({ error: { code: -32602, message: expect.stringContaining('schema') } })
    const inputResponses = { [key ?? '']: ANN, unknown: { action: 'accept' } }
    expect(await request(elsewhere, 'tasks/update', { taskId: result.taskId, inputResponses })).toMatchObject(
      {
        result: { resultType: 'complete' },
      },
    )
    expect(await until(client, result.taskId, 'completed')).toMatchObject({
      result: { structuredContent: 'Ann' },
    })
  })

  it.each(['write', 'read'] as const)(
    'MCP-122: a cancelled call (%s) is a cancelled task, and cancelling again is acknowledged',
    async (tier) => {
      const gate = new Gate()
      const talk = await startTalk([gate.tool(tier)], SOON)
      const other = await talk.another()
      const { result } = await request(talk.server, 'tools/call', { name: 'Gate_Pass' })
      const cancel = async (url: string) =>
        expect(await request({ url }, 'tasks/cancel', { taskId: result.taskId })).toMatchObject({
          result: { resultType: 'complete' },
        })
      await cancel(other.url)
      await gate.aborted
      await cancel(talk.server.url)
      expect(await until(talk.server, result.taskId, 'cancelled')).not.toHaveProperty('result')
    },
  )

  it('MCP-123: for other principals the task does not exist', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()], { ...SOON, auth: KEYS })
    const alice = { url: server.url, who: 'alice' }
    const { result } = await request(alice, 'tools/call', { name: 'Gate_Pass' })
    const { taskId } = result
    const unknown = await request(alice, 'tasks/get', { taskId: 'unknown' })
    expect(unknown.error.code).toBe(-32602)
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update'])
      expect(await request({ ...alice, who: 'bob' }, method, { taskId, inputResponses: {} })).toEqual(unknown)
    gate.open()
    await until(alice, taskId, 'completed')
  })

  it('MCP-124: a call that needs approval is a task that needs input, and runs once it is approved', async () => {
    const { tools, runs } = mcpFixtures()
    const talk = await startTalk(tools, { auth: KEYS })
    const other = await talk.another()
    const capabilities = { ...TASKS, elicitation: { url: {} } }
    const alice = { url: talk.server.url, capabilities, who: 'alice' }
    const { result } = await request(alice, 'tools/call', { name: 'Mail_Delete' })
    const { taskId } = result
    expect(result).toMatchObject({ resultType: 'task', status: 'working' })
    const { inputRequests } = await until(alice, taskId, 'input_required')
    const [[key, question] = []] = Object.entries<{ params: { url: string } }>(inputRequests)
    const inputResponses = { [key ?? '']: { action: 'accept' } }
    await request(alice, 'tasks/update', { taskId, inputResponses })
    // The page was opened, so it is not asked for again while the decision is open.
    expect(await until(alice, taskId, 'working')).toMatchObject({
      statusMessage: expect.stringContaining('approv'),
    })
    // A client that cannot open pages gets the address in the message.
    const plain = await request({ ...alice, capabilities: TASKS }, 'tasks/get', { taskId })
    expect(plain.result).toMatchObject({
      status: 'working',
      statusMessage: expect.stringContaining(key ?? '-'),
    })
    expect(runs.get('Mail.Delete@1.0.0')).toBeUndefined()
    const id = question?.params.url.split('/').at(-1)
    const decided = await fetch(`${other.url}/admin/approvals/${id}/approve`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...as('carol').headers },
      body: '{}',
    })
    expect(decided.status).toBeLessThan(300)
    // Deciding runs nothing: the next poll of the client does, on any server.
    const done = await until({ ...alice, url: other.url }, taskId, 'completed')
    expect(done.result).toMatchObject({ content: [] })
    expect(runs.get('Mail.Delete@1.0.0')).toBe(1)
  })

  it('MCP-124: a client that does not open the page cancels the task', async () => {
    const { tools, runs } = mcpFixtures()
    const { server } = await startTalk(tools, { auth: KEYS })
    const alice = { url: server.url, capabilities: { ...TASKS, elicitation: { url: {} } }, who: 'alice' }
    const { result } = await request(alice, 'tools/call', { name: 'Mail_Delete' })
    const { taskId } = result
    const { inputRequests } = await until(alice, taskId, 'input_required')
    const inputResponses = { [Object.keys(inputRequests)[0] ?? '']: { action: 'decline' } }
    await request(alice, 'tasks/update', { taskId, inputResponses })
    await until(alice, taskId, 'cancelled')
    expect(runs.size).toBe(0)
  })

  it('MCP-128: a client that listens gets every change of its task', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()], SOON)
    const { result } = await request(server, 'tools/call', { name: 'Gate_Pass' })
    const { taskId } = result
    const left = new AbortController()
    const params = { notifications: { taskIds: [taskId, 'unknown'] } }
    const stream = events(
      await ask(server.url, { id: 'L', method: 'subscriptions/listen', params, capabilities: TASKS }, left),
    )
    expect((await nextOf(stream)).params).toMatchObject({ notifications: { taskIds: [taskId] } })
    expect(await nextOf(stream)).toMatchObject({
      method: 'notifications/tasks',
      params: { taskId, status: 'working', _meta: { 'io.modelcontextprotocol/subscriptionId': 'L' } },
    })
    gate.open()
    expect(await nextOf(stream)).toMatchObject({
      method: 'notifications/tasks',
      params: { taskId, status: 'completed', result: { structuredContent: 'through' } },
    })
    left.abort()
  })

  it('MCP-126: a tool that runs only as a task refuses clients without tasks', async () => {
    const only = tool({
      id: 'Only.Task@1.0.0',
      description: 'Runs only as a task.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      task: 'required',
      run: () => 'ran',
    })
    const { server } = await startTalk([only])
    const call = { name: 'Only_Task' }
    expect(await request({ ...server, capabilities: {} }, 'tools/call', call)).toMatchObject({
      error: { code: -32021, data: { requiredCapabilities: TASKS } },
    })
    expect(await request(server, 'tools/call', call)).toMatchObject({ result: { structuredContent: 'ran' } })
    const session = await openSession(server.url)
    const message = { id: 2, method: 'tools/call', params: call }
    expect(await answerOf(await inSession(server.url, session, message))).toMatchObject({
      error: { code: -32601 },
    })
    const old = await openSession(server.url, '2025-06-18')
    expect(await answerOf(await inSession(server.url, old, message))).toMatchObject({
      result: { structuredContent: { result: 'ran' } },
    })
    const { result } = await answerOf(await inSession(server.url, session, { id: 3, method: 'tools/list' }))
    expect(result.tools[0].execution).toEqual({ taskSupport: 'required' })
  })
})

describe('the form of 2025-11-25', () => {
  const FORMS = { elicitation: {} }

  async function openClient(url: string, capabilities: object = FORMS) {
    const session = await openSession(url, '2025-11-25', capabilities)
    return {
      session,
      send: async (method: string, params: object = {}) =>
        await answerOf(await inSession(url, session, { id: 1, method, params })),
    }
  }

  it('MCP-125, MCP-127: a client that asks for a task gets one, and its result by a separate method', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool('read')], SOON)
    const { send } = await openClient(server.url)
    const { result } = await send('tools/call', { name: 'Gate_Pass', task: { ttl: 60_000 } })
    const { taskId } = result.task
    expect(result.task).toMatchObject({ status: 'working', ttl: 86_400_000, pollInterval: 1_000 })
    expect((await send('tasks/list')).result.tasks).toMatchObject([{ taskId, status: 'working' }])
    const waiting = send('tasks/result', { taskId })
    gate.open('yes')
    expect((await waiting).result).toMatchObject({
      structuredContent: { result: 'yes' },
      _meta: { [RELATED]: { taskId }, 'collet/callId': taskId },
    })
    expect((await send('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'completed' })
    expect((await send('tasks/get', { taskId })).result).not.toHaveProperty('result')
    expect((await send('tasks/cancel', { taskId })).error.code).toBe(-32602)
    expect(gate.runs).toBe(1)
  })

  it('MCP-125: a quick call and a refused input are tasks too, an unknown tool is not', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const { send } = await openClient(server.url)
    const task = {}
    const quick = await send('tools/call', { name: 'Math_Add', arguments: { a: 1, b: 2 }, task })
    expect(
      (await send('tasks/result', { taskId: quick.result.task.taskId })).result.structuredContent,
    ).toEqual({
      result: 3,
    })
    const wrong = await send('tools/call', { name: 'Math_Add', arguments: { a: 'x' }, task })
    expect((await send('tasks/result', { taskId: wrong.result.task.taskId })).result.isError).toBe(true)
    expect((await send('tasks/get', { taskId: wrong.result.task.taskId })).result).toMatchObject({
      status: 'failed',
      statusMessage: expect.stringContaining('Must be a number'),
    })
    expect((await send('tools/call', { name: 'Nope', task })).error.code).toBe(-32602)
    expect((await send('tools/call', { name: 'Math_Add', task: 5 })).error.code).toBe(-32602)
    expect((await send('tasks/list')).result.tasks).toHaveLength(2)
    expect((await send('tasks/list', { cursor: 'wrong' })).error.code).toBe(-32602)
  })

  it('MCP-127: questions of the task are sent on the stream of tasks/result', async () => {
    const gate = new Gate()
    const { server } = await startTalk([asker(gate)], SOON)
    const { session, send } = await openClient(server.url)
    const { result } = await send('tools/call', { name: 'Ask_Later', task: {} })
    const { taskId } = result.task
    gate.open()
    const stream = events(
      await inSession(server.url, session, { id: 9, method: 'tasks/result', params: { taskId } }),
    )
    let question = await nextOf(stream)
    while (question.method !== 'elicitation/create') question = await nextOf(stream)
    expect(question.params).toMatchObject({ message: 'Name?', _meta: { [RELATED]: { taskId } } })
    expect((await send('tasks/get', { taskId })).result.status).toBe('input_required')
    await inSession(server.url, session, { id: question.id, result: ANN })
    let end = await nextOf(stream)
    while (end.id !== 9) end = await nextOf(stream)
    expect(end.result.structuredContent).toEqual({ result: 'Ann' })
  })

  it('MCP-89, MCP-125: the first revision has no tasks, and ignores a request for one', async () => {
    const { server } = await startTalk(mcpFixtures().tools)
    const session = await openSession(server.url, '2025-06-18')
    const params = { name: 'Math_Add', arguments: { a: 1, b: 2 }, task: {} }
    const call = await answerOf(await inSession(server.url, session, { id: 1, method: 'tools/call', params }))
    expect(call.result.structuredContent).toEqual({ result: 3 })
    const get = await answerOf(await inSession(server.url, session, { id: 2, method: 'tasks/list' }))
    expect(get.error.code).toBe(-32601)
  })
})
