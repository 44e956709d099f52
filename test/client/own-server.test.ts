import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '#client/connect'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '#testing/sample-tool'
import { testSettings } from '../test-settings.ts'

const pay = sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } })
const settings = testSettings({ tools: [pay] })
let server: RunningServer

beforeAll(async () => {
  server = await startServer(settings, { graceMs: 0 })
})

afterAll(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

describe('the client against our own server', () => {
  it('gives approval_required for a tool that asks for approval, with the call id to repeat', async () => {
    const tried = await connect(server.url).tryCall('Bank.Pay', {}, { callId: 'pay-1' })
    expect(tried).toMatchObject({
      ok: false,
      error: {
        class: 'approval_required',
        status: 400,
        callId: 'pay-1',
        canRetry: false,
        challenges: [{ url: expect.stringContaining('/approvals/') }],
      },
    })
  })

  it('gives server for other refusals', async () => {
    const client = connect(server.url)
    expect(await client.tryCall('Bank.Pay@9.0.0')).toMatchObject({ error: { class: 'server' } })
    await server.drain()
    expect(await connect(server.url, { maxRetries: 0 }).tryCall('Bank.Pay@1.0.0')).toMatchObject({
      error: { class: 'server', canRetry: true },
    })
  })
})
