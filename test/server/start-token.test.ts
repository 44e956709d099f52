import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

let settings: Settings
let server: RunningServer

beforeEach(async () => {
  settings = testSettings()
  server = await startServer(settings, { graceMs: 0 })
})

afterEach(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

async function askWithToken({ url, startTokenFile }: RunningServer): Promise<number> {
  const authorization = `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`
  return (await fetch(`${url}/admin/calls`, { headers: { authorization } })).status
}

describe('the start token of a running server', () => {
  it('rule 29: survives a second server that finds the port in use', async () => {
    const port = Number(new URL(server.url).port)
    const second = { ...settings, server: { ...settings.server, port } }
    await expect(startServer(second, { graceMs: 0 })).rejects.toThrow(/already in use/)
    expect(await askWithToken(server)).toBe(200)
  })

  it('rule 29: coexists with the token of another server on the same data folder, and outlives it', async () => {
    const second = await startServer(settings, { graceMs: 0 })
    expect(await Promise.all([server, second].map(askWithToken))).toEqual([200, 200])
    await second.close()
    expect(readdirSync(settings.dataFolder)).toEqual([`start-token-${new URL(server.url).port}`])
    expect(await askWithToken(server)).toBe(200)
  })
})
