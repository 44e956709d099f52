import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'

const PATIENCE = { timeout: 8_000, interval: 20 }
const ANN = 'ann-has-a-key-of-32-characters-x'
const BOB = 'bob-has-a-key-of-32-characters-x'
const WATCH = 'watch-has-a-key-of-32-characters'

const tool = (name: string, policy: object = {}) => ({
  id: `${name}@1.0.0`,
  description: 'Does something.',
  input: { n: z.number().describe('A number.') },
  output: z.string(),
  policy: { safetyTier: 'read', ...policy },
  run: () => 'done',
})
const key = (id: string, text: string, tenant: string, scopes: string[]) => ({
  ...{ id, tenant, scopes },
  key: new Secret(text),
})

const ROWS = z.object({
  rejected: z.array(
    z.object({
      tenant: z.string(),
      principal: z.string(),
      tool: z.string().nullable(),
      code: z.string(),
      requests: z.number(),
      message: z.string(),
    }),
  ),
})

describe('requests that are rejected', () => {
  let server: RunningServer
  const settings = sqliteSettings({
    tools: requireTools([tool('Mail.Read', { cost: 2 }), tool('Bank.Pay', { scopes: ['bank'] })]),
    auth: {
      apiKeys: [
        key('ann', ANN, 'acme', []),
        key('bob', BOB, 'other', []),
        key('watch', WATCH, 'acme', ['admin:calls']),
      ],
      jwt: undefined,
    },
  })
  const call = async (credential: string, tool: string, input: object): Promise<number> => {
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': credential },
      body: JSON.stringify({ request: { tool_id: tool, input } }),
    })
    await response.text()
    return response.status
  }
  const ask = async (path: string): Promise<unknown> =>
    await (await fetch(`${server.url}${path}`, { headers: { 'x-api-key': WATCH } })).json()
  const rowsOf = async (query = '') => ROWS.parse(await ask(`/admin/calls/rejected?${query}`)).rejected

  beforeAll(async () => {
    server = await startServer(settings)
    for (const n of [1, 2, 3]) await call(ANN, 'Mail.Read', { n })
    for (let round = 0; round < 3; round += 1) await call(ANN, 'Mail.Read', { n: 'one' })
    await call(ANN, 'Mail.Reed', { n: 1 })
    await call(ANN, 'Bank.Pay', { n: 1 })
    await call(BOB, 'Mail.Read', {})
    await vi.waitFor(async () => expect((await rowsOf()).length).toBe(2), PATIENCE)
  })
  afterAll(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  it('are listed by caller, tool and cause with the message that the caller received', async () => {
    const [invalid] = await rowsOf('code=input_invalid')
    expect(invalid).toEqual({
      ...{ tenant: 'acme', principal: 'key:ann', tool: 'Mail.Read@1.0.0' },
      ...{ code: 'input_invalid', requests: 3 },
      message: expect.stringContaining('n'),
    })
  })

  it('name no tool that the caller cannot see, whether it exists or not', async () => {
    expect(await rowsOf('code=tool_not_found')).toMatchObject([{ tool: null, requests: 2 }])
    expect(JSON.stringify(await rowsOf())).not.toContain('@1.0.0","code":"tool_not_found')
  })

  it('stay within the tenant of the operator, whatever tenant is named', async () => {
    for (const query of ['', 'tenant=other'])
      expect(new Set((await rowsOf(query)).map(({ tenant }) => tenant))).toEqual(new Set(['acme']))
  })

  it('are in the statistics with the calls, and alone when only they are requested', async () => {
    const all = await ask('/admin/calls/stats')
    expect(all).toMatchObject({
      states: { succeeded: 3 },
      rejected: { input_invalid: 3, tool_not_found: 2 },
    })
    expect(await ask('/admin/calls/stats?state=rejected')).toMatchObject({
      states: {},
      rejected: { input_invalid: 3, tool_not_found: 2 },
    })
    expect(await ask('/admin/calls/stats?state=failed')).toMatchObject({ states: {}, rejected: {} })
  })

  it('count as rejected, never as calls, in usage', async () => {
    const { usage } = z
      .object({ usage: z.array(z.looseObject({ tool: z.string() })) })
      .parse(await ask('/admin/usage'))
    expect(usage).toContainEqual(
      expect.objectContaining({ tool: 'Mail.Read@1.0.0', calls: 3, rejected: 3, cost: 6 }),
    )
    expect(usage).toContainEqual(expect.objectContaining({ tool: '', calls: 0, rejected: 2 }))
  })
})
