import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { FakeIo } from '../cli/fake-io.ts'
import { sqliteSettings } from '../test-settings.ts'

const named = (id: string, more: object = {}) =>
  tool({ id, description: 'A tool.', input: {}, output: {}, run: () => ({}), ...more })
const tools = requireTools([
  named('Open.Say@1.0.0'),
  named('Fs.Read@1.0.0', { policy: { safetyTier: 'read', scopes: ['tools:fs:read'] } }),
  named('Git.Hub@1.0.0', { requirements: { authorization: [{ id: 'github' }], userId: true } }),
])

const servers: RunningServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

async function open() {
  const folder = mkdtempSync(join(tmpdir(), 'collet-closed-'))
  writeFileSync(join(folder, 'collet.config.json'), '{}')
  const settings = sqliteSettings({ tools, dataFolder: join(folder, '.collet') })
  mkdirSync(settings.dataFolder)
  const server = await startServer(settings, { graceMs: 0 })
  servers.push(server)
  const run = async (...argv: readonly string[]) => {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
    const code = await io.run(...argv)
    return { code, stdout: io.stdout, stderr: io.stderr }
  }
  return { server, run }
}

describe('a tool whose scope no caller can hold', () => {
  it('is reported in the list, in the filter, in a call and in the counts', async () => {
    const { server, run } = await open()
    expect(server.counts()).toMatchObject({ tools: 3, unreachable: 1 })
    const listed = await run('tools', '--needs', 'scope')
    expect(listed.stdout).toContain('scope tools:fs:read')
    expect(listed.stdout).toContain('no caller has tools:fs:read')
    expect(listed.stdout).not.toContain('Open.Say')
    const called = await run('call', 'Fs.Read')
    expect(called.stderr).toContain('no caller has the scope tools:fs:read')
    expect(called.stderr).toContain('collet keys create NAME --scope tools:fs:read')
    expect((await run('keys', 'create', 'fs', '--scope', 'tools:*')).code).toBe(0)
    expect((await run('tools', '--needs', 'scope')).stdout).not.toContain('no caller has')
    expect((await run('tools', '--needs', 'missing')).stdout).not.toContain('Fs.Read')
  })
})

describe('a tool that needs a provider missing from the config', () => {
  it('is reported at the start and, with the config lines to add, on the page of its challenge', async () => {
    const { server, run } = await open()
    expect(server.warnings.join()).toContain(
      'Git.Hub needs github, and the config has no oauth.providers.github',
    )
    const shown = await run('tools', 'show', 'Git.Hub')
    expect(shown.stdout).toContain(
      'This server has no sign-in service for github. Add oauth.providers.github',
    )
    expect(shown.stdout).toMatch(/user id: met/)
    const answer = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: 'Git.Hub', context: { user_id: 'u' } } }),
    })
    // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
    const json: any = await answer.json()
    expect(json.message).toContain('This server has no sign-in service for github.')
    const page = await (await fetch(json.missing_requirements.authorization[0].url)).text()
    expect(page).toContain('Ask the operator of this server')
    expect(page).toContain('https://github.com/login/oauth/authorize')
  })
})
