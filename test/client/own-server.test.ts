import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { ToolError } from '#kernel/base/errors'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'

const pay = sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } })
const fail = sampleTool('Bank.Fail@1.0.0', () => {
  throw new ToolError('The bank is closed.', { canRetry: true, retryAfterMs: 90_000 })
})
const who = sampleTool('Who.Asks@1.0.0', (_input, { claimedUserId, userInfo }) => [claimedUserId, userInfo])
const old = sampleTool('Clock.Read@1.0.0', () => 'old')
const newer = sampleTool('Clock.Read@1.1.0', () => 'new')
const settings = testSettings({ tools: [pay, fail, who, old, newer] })
let server: RunningServer

beforeAll(async () => {
  server = await startServer(settings, { graceMs: 0 })
})

afterAll(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

describe('the client against our own server', () => {
  it('returns approval_required for a tool that needs approval, with the call id to repeat', async () => {
    const tried = await connect(server.url).tryCall('Bank.Pay', {}, { callId: 'pay-1', runId: 'monday' })
    expect(tried).toMatchObject({
      ok: false,
      error: {
        class: 'approval_required',
        code: 'approval_required',
        runId: 'monday',
        status: 400,
        callId: 'pay-1',
        canRetry: false,
        challenges: [{ url: expect.stringContaining('/approvals/') }],
      },
    })
  })

  it.each(['otc', 'opentool'] as const)(
    'reports the exact failure and the run of a call, over %s',
    async (protocol) => {
      const tried = await connect(server.url, { protocol }).tryCall('Bank.Fail', {}, { runId: 'monday' })
      expect(tried).toMatchObject({
        ok: false,
        error: { class: 'tool', code: 'tool_failed', runId: 'monday', retryAfterMs: 90_000, canRetry: true },
      })
    },
  )

  it('passes the user that the caller names to the tool', async () => {
    const client = connect(server.url)
    const userInfo = { plan: 'gold', since: 2019 }
    const { value } = await client.call('Who_Asks', {}, { userId: 'u-7', userInfo })
    expect(value).toEqual(['u-7', userInfo])
    const cycle: Record<string, never> = {}
    Object.assign(cycle, { cycle })
    expect(await client.tryCall('Who_Asks', {}, { userInfo: cycle })).toMatchObject({
      error: { class: 'config', message: expect.stringContaining('userInfo cannot be written as JSON') },
    })
  })

  it.each(['otc', 'opentool'] as const)(
    'finds a call by its id, whatever its version, if none is named, over %s',
    async (protocol) => {
      const callId = `clock of ${protocol}`
      await connect(server.url).call('Clock.Read@1.0.0', {}, { callId })
      const client = connect(server.url, { protocol })
      for (const name of ['Clock.Read', 'Clock_Read', 'openwop:Clock.Read']) {
        expect((await client.call(name, {}, { callId })).value).toBe('old')
        expect((await client.call(name)).value).toBe('new')
        expect((await client.call(`${name}@1.0.0`)).value).toBe('old')
      }
      expect(await client.get('Clock.Read@3.0.0')).toBeUndefined()
      expect(await client.tryCall('Clock.Read@1.1.0', {}, { callId })).toMatchObject({
        error: { code: 'key_conflict' },
      })
    },
  )

  it('returns the class server for other refusals', async () => {
    const client = connect(server.url)
    expect(await client.tryCall('Bank.Pay@9.0.0')).toMatchObject({ error: { class: 'server' } })
    await server.drain()
    expect(await connect(server.url, { maxRetries: 0 }).tryCall('Bank.Pay@1.0.0')).toMatchObject({
      error: { class: 'server', canRetry: true },
    })
  })
})
