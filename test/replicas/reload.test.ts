import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { createDatabase } from '../store/databases.ts'
import { testSettings } from '../test-settings.ts'

const KEY = randomBytes(32).toString('base64url')
const TOOLS = requireTools([
  {
    id: 'Kit.Do@1.0.0',
    description: 'Does.',
    input: {},
    output: z.string(),
    policy: { safetyTier: 'read' },
    run: () => 'done',
  },
])
const WITHIN = { timeout: 10_000 }

let upstream: RunningServer
const servers: RunningServer[] = []
const folders: string[] = []
/** The config of every server. */
let written: Partial<Settings> = {}

beforeAll(async () => {
  const shared = {
    store: await createDatabase('reload'),
    masterKey: randomBytes(32),
    tools: TOOLS,
    auth: { apiKeys: [{ id: 'agent', key: new Secret(KEY), tenant: 'default', scopes: [] }], jwt: undefined },
  }
  for (const _ of [0, 1, 2]) {
    const settings = testSettings(shared)
    folders.push(settings.dataFolder)
    const config = { read: async () => ({ ...settings, ...written }), onRead: () => undefined }
    servers.push(await startServer(settings, { graceMs: 200, config }))
  }
  const behind = testSettings({ tools: TOOLS })
  folders.push(behind.dataFolder)
  upstream = await startServer(behind, { graceMs: 200 })
})
afterAll(async () => {
  await Promise.all([...servers, upstream].map((server) => server?.close()))
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

async function ask(
  at: number,
  path: string,
  { key, body, method = 'POST' }: { key?: string; body?: object; method?: string },
) {
  const server = servers[at]
  if (server === undefined) throw new Error('no such server')
  const credential = key ?? readFileSync(server.startTokenFile, 'utf8').trim()
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = JSON.parse(await response.text())
  return { status: response.status, code: response.headers.get('collet-error-code') ?? 'ok', json }
}

const call = async (at: number, tool: string, key = KEY) => {
  const body = { request: { call_id: randomBytes(9).toString('hex'), tool_id: tool, input: {} } }
  const { status, code } = await ask(at, '/tools/call', { key, body })
  return status === 401 ? 'unauthenticated' : code
}
const everywhere = (tool: string, key?: string) => Promise.all([0, 1, 2].map((at) => call(at, tool, key)))

describe('a change on one replica', () => {
  it('is reloaded by all of them: limits', async () => {
    expect(await everywhere('Kit.Do')).toEqual(['ok', 'ok', 'ok'])
    const none = { ...UNLIMITED, rate: { perMs: 1e-12, burst: 0 } }
    written = { limits: { ...NO_LIMITS, perPrincipal: none } }
    expect((await ask(1, '/admin/reload', { body: {} })).json.applied).toEqual(['limits.perPrincipal'])
    await expect.poll(() => everywhere('Kit.Do'), WITHIN).toEqual(Array(3).fill('rate_limited'))
    written = {}
    await ask(2, '/admin/reload', { body: {} })
    await expect.poll(() => everywhere('Kit.Do'), WITHIN).toEqual(['ok', 'ok', 'ok'])
  })

  it('is seen by all of them: keys', async () => {
    const made = await ask(0, '/admin/keys', { body: { principal: 'robot', scopes: [] } })
    const key: string = made.json.key
    await expect.poll(() => everywhere('Kit.Do', key), WITHIN).toEqual(['ok', 'ok', 'ok'])
    expect((await ask(1, `/admin/keys/${made.json.key_id}`, { method: 'DELETE' })).status).toBe(200)
    await expect.poll(() => everywhere('Kit.Do', key), WITHIN).toEqual(Array(3).fill('unauthenticated'))
  })

  it('is seen by all of them: sources and their policies', async () => {
    const put = (policy: object) => ({
      ...{ key: 'Far', replace: true },
      options: { type: 'otc', url: upstream.url, policy: { safetyTier: 'read', ...policy } },
    })
    expect((await ask(0, '/admin/sources', { body: put({}) })).status).toBe(201)
    await expect.poll(() => everywhere('Far.Kit_Do'), WITHIN).toEqual(['ok', 'ok', 'ok'])
    await ask(1, '/admin/sources', { body: put({ scopes: ['far:do'] }) })
    await expect.poll(() => everywhere('Far.Kit_Do'), WITHIN).toEqual(Array(3).fill('tool_not_found'))
    await ask(2, '/admin/sources/Far', { method: 'DELETE' })
  })
})
