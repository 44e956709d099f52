import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '#server/start-server'
import { sampleTool } from '#testing/samples'
import { testSettings } from '../test-settings.ts'
import { type PostgresServer, startPostgres } from './postgres-server.ts'

let postgres: PostgresServer

beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres.stop())

describe('a server on postgres://', () => {
  const pay = () => {
    let payments = 0
    return sampleTool('Bank.Pay@1.0.0', () => {
      payments += 1
      return `payment ${payments}`
    })
  }

  async function call(url: string): Promise<unknown> {
    const body = JSON.stringify({ request: { tool_id: 'Bank.Pay@1.0.0', call_id: 'one', input: {} } })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${url}/tools/call`, { method: 'POST', headers, body })
    return await reply.json()
  }

  it('answers a key from what another server recorded', async () => {
    const store = await postgres.createDatabase('served')
    const settings = testSettings({ tools: [pay()], store, masterKey: randomBytes(32) })
    try {
      for (let start = 0; start < 2; start += 1) {
        const server = await startServer({ ...settings, tools: [pay()] }, { graceMs: 0 })
        expect(await call(server.url)).toMatchObject({ result: { success: true, value: 'payment 1' } })
        await server.close()
      }
    } finally {
      rmSync(settings.dataFolder, { recursive: true })
    }
  })

  it('is not started without COLLET_KEY: replicas with keys of their own could not read each other', async () => {
    const settings = testSettings({ store: await postgres.createDatabase('keyless') })
    try {
      await expect(startServer(settings, { graceMs: 0 })).rejects.toThrow(
        /needs COLLET_KEY.*"collet keys generate" makes one/,
      )
    } finally {
      rmSync(settings.dataFolder, { recursive: true })
    }
  })
})
