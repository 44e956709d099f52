import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { RUN_HEADER } from '#protocols/call-wire'
import { type RunningServer, startServer } from '#server/start-server'
import type { OfferedTool, Source } from '#sources/kit/source'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { EventReader } from '../conformance/event-reader.ts'
import { mcpFixtures } from '../conformance/mcp-fixtures.ts'
import { answerOf, ask, events, inSession, nextOf, openSession } from '../conformance/mcp-talk.ts'
import { sampleTool } from '../contracts/samples.ts'
import { Browser } from '../oauth/browser.ts'
import { ADMIN, askOtc, openStage } from '../oauth/oauth-stage.ts'
import { createDatabase } from '../store/databases.ts'
import { egressTo, testSettings } from '../test-settings.ts'
import { type Replicas, startReplicas } from './stage.ts'

const GREETING: OfferedTool = {
  nativeName: 'hello',
  description: 'Says hello.',
  inputSchema: { type: 'object', properties: {} },
  outputSchema: { type: 'string' },
  policy: { safetyTier: 'read' },
  binding: {},
}

/** A source whose tools the test defines, for every replica. */
let offered = GREETING
const announce = new Set<() => void>()
const openGreeter = (key: string): Source => ({
  ...{ key, type: 'custom', kind: 'connector' },
  discover: async () => ({
    identity: { origin: 'https://upstream.example' },
    tools: [offered],
    warnings: [],
  }),
  watch: (onChange) => {
    announce.add(onChange)
  },
  invoke: async () => 'hello',
  health: () => ({ state: 'ready' }),
  close: async () => undefined,
})

const KIT = {
  ...{
    id: 'Kit.Write@1.0.0',
    description: 'Writes.',
    input: {},
    output: {},
    policy: { safetyTier: 'write' },
  },
  run: () => 'written',
}

let replicas: Replicas
let upstream: RunningServer

beforeAll(async () => {
  upstream = await startServer(testSettings({ tools: [sampleTool('Clock.Now@1.0.0', () => 'noon')] }), {
    graceMs: 0,
  })
  replicas = await startReplicas('shared', () => [...mcpFixtures().tools, KIT], {
    egress: egressTo(new URL(upstream.url).host),
    sources: new Map([['Greeter', { type: 'custom', kind: 'connector', open: openGreeter }]]),
  })
}, 60_000)
afterAll(async () => {
  await replicas?.close()
  await upstream?.close()
})

const TOOLS = z.object({ tools: z.array(z.object({ id: z.string(), description: z.string() })) })

/** The tools that each replica lists. */
function toolsOfAll(): Promise<readonly string[]> {
  return Promise.all(
    [0, 1, 2].map(async (at) => {
      const { tools } = TOOLS.parse(await (await fetch(`${replicas.url(at)}/tools`)).json())
      return tools.map(({ id, description }) => `${id} ${description}`).join('\n')
    }),
  )
}

async function admin(at: number, method: string, path: string, body?: object) {
  const file = replicas.servers[at]?.startTokenFile ?? ''
  const headers = {
    authorization: `Bearer ${readFileSync(file, 'utf8').trim()}`,
    'content-type': 'application/json',
  }
  const response = await fetch(`${replicas.url(at)}/admin/${path}`, {
    ...{ method, headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  expect(response.status, text).toBeLessThan(300)
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = JSON.parse(text)
  return json
}

const SOON = { timeout: 10_000, interval: 50 }

describe('three replicas', () => {
  it('a source that is added on one is served by all, and removed from all when another removes it', async () => {
    const has = async () => (await toolsOfAll()).map((tools) => tools.includes('Clock'))
    await admin(0, 'POST', 'sources', { key: 'Wall', options: { type: 'otc', url: upstream.url } })
    await expect.poll(has, SOON).toEqual([true, true, true])
    const [, id = ''] = /(\S*Clock\S*)@/.exec((await toolsOfAll())[2] ?? '') ?? []
    expect(await CALL_WAYS.OTC(replicas.url(2), { tool: id, input: {} })).toMatchObject({ code: 'ok' })
    await admin(1, 'DELETE', 'sources/Wall')
    await expect.poll(has, SOON).toEqual([false, false, false])
  })

  it('rule 32: a change of a source waits on all, and is served by all when one accepts it', async () => {
    const listsNewTool = async () => (await toolsOfAll()).map((tools) => tools.includes('louder'))
    offered = { ...GREETING, description: 'Says hello, louder.' }
    for (const announceChange of announce) announceChange()
    const waiting = async () => (await admin(1, 'GET', 'pins?waiting=true')).pins.length
    await expect.poll(waiting, SOON).toBe(1)
    expect(await listsNewTool()).toEqual([false, false, false])
    await admin(2, 'POST', 'pins/Greeter.hello/accept', {})
    await expect.poll(listsNewTool, SOON).toEqual([true, true, true])
  })

  it('a reader of a stream on one gets, once and in order, the events that all write concurrently', async () => {
    const headers = { [RUN_HEADER]: 'streamed' }
    const write = (at: number) => CALL_WAYS.OTC(replicas.url(at), { tool: 'Kit.Write', input: {}, headers })
    await write(0)
    const readers = await Promise.all(
      [1, 2].map((at) => EventReader.open(`${replicas.url(at)}/v1/runs/streamed/events`, {})),
    )
    await Promise.all([0, 1, 2, 0, 1, 2, 0, 1, 2].map(write))
    for (const reader of readers) {
      const frames = await reader.until(20)
      expect(frames.map(({ id }) => Number(id))).toEqual([...frames.keys()])
      reader.leave()
    }
    const rest = await EventReader.open(`${replicas.url(0)}/v1/runs/streamed/events`, {
      'last-event-id': '14',
    })
    expect((await rest.until(5)).map(({ id }) => Number(id))).toEqual([15, 16, 17, 18, 19])
    rest.leave()
  })

  it('MCP-70…74, MCP-79: a question from one is answered on another, with and without a session', async () => {
    const call = { method: 'tools/call', params: { name: 'Ask_Name' } }
    const [FORM, ANN] = [{ elicitation: {} }, { action: 'accept', content: { name: 'Ann' } }]
    const session = await openSession(replicas.url(0), '2025-11-25', FORM)
    const stream = events(await inSession(replicas.url(1), session, { ...call, id: 8 }))
    const { id } = await nextOf(stream)
    expect((await inSession(replicas.url(2), session, { id, result: ANN })).status).toBe(202)
    expect(await nextOf(stream)).toMatchObject({ id: 8, result: { structuredContent: { result: 'Ann' } } })

    const asked = { ...call, capabilities: FORM }
    const { result } = await answerOf(await ask(replicas.url(0), asked))
    expect(result.resultType).toBe('input_required')
    const params = { ...call.params, inputResponses: { name: ANN }, requestState: result.requestState }
    expect(await answerOf(await ask(replicas.url(1), { ...asked, id: 2, params }))).toMatchObject({
      result: { resultType: 'complete', structuredContent: 'Ann' },
    })
  })
})

describe('two replicas behind a round-robin load balancer', () => {
  it('rule 20, rule 24: a person consents through both, and both use the token and a secret that was set on one', async () => {
    const replicaUrls: string[] = []
    const balancer = await startBalancer(replicaUrls)
    onTestFinished(() => {
      balancer.closeAllConnections()
      balancer.close()
    })
    const { server, ...settings } = testSettings()
    const port = z.object({ port: z.number() }).parse(balancer.address()).port
    const publicUrl = `http://127.0.0.1:${port}`
    const changes = {
      store: await createDatabase('consents'),
      masterKey: randomBytes(32),
      dataFolder: settings.dataFolder,
      server: { ...server, publicUrl },
    }
    await using one = await openStage({ changes })
    await using two = await openStage({ again: one })
    replicaUrls.push(one.url, two.url)
    const refused = await askOtc(publicUrl, { callId: 'c1' })
    const [challenge] = refused.json.missing_requirements.authorization
    const page = await new Browser().visit(challenge.url, { login: 'ann' })
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('has been granted')])
    for (const url of replicaUrls) {
      expect(await one.status(challenge.check_url)).toBe('completed')
      expect((await askOtc(url, { callId: 'c1' })).value).toBe('mail')
      expect((await askOtc(url, { callId: `own ${url}` })).value).toBe('mail')
    }
    expect([one.given.length + two.given.length, two.given.length > 0]).toEqual([3, true])

    const put = await fetch(`${one.url}/admin/secrets`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'API_KEY', principal: 'key:agent', value: 'the secret' }),
    })
    expect(put.status).toBeLessThan(300)
    expect((await askOtc(two.url, { tool: 'Text.Secret' })).value).toBe('done')
    expect(two.given.at(-1)?.token).toBe('the secret')
  })
})

/** Sends each request to the next replica. */
async function startBalancer(urls: readonly string[]): Promise<Server> {
  let turn = 0
  const balancer = createServer((incoming, outgoing) => {
    turn += 1
    const { method, url: path, headers } = incoming
    const to = request(`${urls[turn % urls.length]}${path}`, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    to.on('error', () => outgoing.destroy())
    incoming.pipe(to)
  }).listen(0, '127.0.0.1')
  await once(balancer, 'listening')
  return balancer
}
