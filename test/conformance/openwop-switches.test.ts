import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ColletConfig } from '#config/config'
import { tool } from '#kernel/tool/define'
import { serve } from '#server/create-gateway'
import { httpSend } from './http-send.ts'

const TOOL_ID = 'openwop:Calculator.Add'
const PATHS = ['/v1/tools', `/v1/tools/${encodeURIComponent(TOOL_ID)}`]

const NONE = { catalog: false, compactView: false, sessions: false }

const keep = tool({
  id: 'Box.Keep@1.0.0',
  description: 'Keeps what it gets as long as its session lives.',
  input: {},
  output: {},
  session: { open: () => [0], close: () => undefined, idleMs: 60_000 },
  run: (_input, { session }) => session.push(0),
})

const add = tool({
  id: 'Calculator.Add@1.0.0',
  description: 'Adds.',
  input: { type: 'object', properties: { a: { type: 'number', description: 'One.' } } },
  output: { type: 'number' },
  run: () => 1,
})

interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

type Ask = (path: string, method?: string, body?: object) => Promise<Answer>

/** A complete server with this openwop config, reached over a socket. */
async function withConfig(
  openwop: ColletConfig['openwop'],
  look: (ask: Ask) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-openwop-'))
  const config: ColletConfig = {
    tools: [add, keep],
    server: { port: 0 },
    store: 'memory:',
    log: { level: 'silent' },
    ...(openwop === undefined ? {} : { openwop }),
  }
  const server = await serve(config, { folder })
  const send = httpSend(server.url)
  try {
    await look(async (path, method = 'GET', body) => {
      const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
      const { status, text } = await send({
        method,
        path,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      return { status, json: text === '' ? undefined : JSON.parse(text) }
    })
  } finally {
    await server.close()
    rmSync(folder, { recursive: true })
  }
}

/** Compares each claim of the discovery document with the routes. */
async function expectAgreement(ask: Ask) {
  const { toolCatalog } = (await ask('/.well-known/openwop')).json
  const catalog = toolCatalog?.supported === true
  const compactView = toolCatalog?.compactView === true
  const { paths } = (await ask('/v1/openapi.json')).json
  expect(Object.keys(paths).some((path) => path.startsWith('/v1/tools'))).toBe(catalog)
  expect(/compact/i.test(JSON.stringify(paths))).toBe(compactView)
  for (const path of PATHS) {
    const standard = await ask(path)
    expect(standard.status).toBe(catalog ? 200 : 404)
    const compact = await ask(`${path}?view=compact`)
    if (compactView) expect(compact.json).not.toEqual(standard.json)
    else expect(compact).toEqual(standard)
    if (!catalog) {
      const { status, json } = await ask(path, 'POST')
      expect([standard.json.error, status, json.error]).toEqual(['not_found', 404, 'not_found'])
    }
  }
  return { catalog, compactView, sessions: await expectSessions(ask, toolCatalog, paths) }
}

/** C3: a server that advertises sessions opens and closes them; otherwise the path does not exist. */
async function expectSessions(ask: Ask, toolCatalog: unknown, paths: object): Promise<boolean> {
  const sessions = JSON.stringify(toolCatalog ?? {}).includes('"sessionLifecycle":true')
  expect(Object.keys(paths).some((path) => path.startsWith('/v1/sessions'))).toBe(sessions)
  const opened = await ask('/v1/sessions', 'POST', { toolId: 'openwop:Box.Keep' })
  expect(opened.status).toBe(sessions ? 201 : 404)
  const closed = await ask(`/v1/sessions/${opened.json.sessionId}`, 'DELETE')
  expect(closed.status).toBe(sessions ? 204 : 404)
  // The paths of runs always exist, because every call is in a run.
  expect((await ask('/v1/runs/none/events')).json.error).toBe('not_found')
  expect(Object.keys(paths)).toContain('/v1/runs/{runId}/events')
  return sessions
}

describe('the openwop switches of a config', () => {
  it.each([
    [undefined, { catalog: true, compactView: true, sessions: true }],
    [{}, { catalog: true, compactView: true, sessions: true }],
    [{ compactView: false }, { catalog: true, compactView: false, sessions: true }],
    [{ sessions: false }, { catalog: true, compactView: true, sessions: false }],
    [
      { sessions: false, compactView: false },
      { catalog: true, compactView: false, sessions: false },
    ],
    [{ catalog: false }, NONE],
    [{ catalog: false, compactView: true, sessions: true }, NONE],
  ])('C3, OWP-05, OWP-06, OWP-26: with %j the document and the routes agree', async (openwop, served) => {
    await withConfig(openwop, async (ask) => {
      expect(await expectAgreement(ask)).toEqual(served)
    })
  })

  it('OWP-06: without a catalog the other protocols still serve the tools', async () => {
    await withConfig({ catalog: false }, async (ask) => {
      expect((await ask('/tools')).json).toMatchObject({
        tools: [{ id: 'Calculator.Add@1.0.0' }, { id: 'Box.Keep@1.0.0' }],
      })
    })
  })
})
