import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const OPERATIONS = {
  openapi: '3.1.0',
  info: { title: 'Shop', version: '1' },
  servers: [{ url: 'https://shop.example' }],
  paths: {
    '/orders': {
      get: { operationId: 'listOrders', summary: 'Lists orders.', responses: { 200: { description: 'ok' } } },
      post: { operationId: 'placeOrder', summary: 'Places one.', responses: { 200: { description: 'ok' } } },
    },
    '/old': {
      get: {
        ...{ operationId: 'oldSearch', summary: 'Searches slowly.', deprecated: true },
        responses: { 200: { description: 'ok' } },
      },
    },
  },
}

const CONFIG = (server: string) => `
  const tool = (id, safetyTier, more) => ({
    [Symbol.for('collet.tool')]: true, id, description: 'Does it. And more.',
    input: { type: 'object', properties: { to: { type: 'string', description: 'Whom.' } } },
    output: {}, policy: { safetyTier }, run: () => 1, ...more,
  })
  export default {
    tools: [
      tool('Mail.Send@1.0.0', 'write'), tool('Mail.Send@2.0.0', 'write'),
      tool('Sms.Send@1.0.0', 'write', { requirements: { secrets: [{ id: 'TWILIO' }] } }),
    ],
    sources: { Shop: { type: 'openapi', file: './shop.json', tools: { placeOrder: { approval: 'always' } } } },
    log: { level: 'silent' },
    ${server}
  }`

let folder: string
let running: RunningServer | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-tools-'))
  writeFileSync(join(folder, 'shop.json'), JSON.stringify(OPERATIONS))
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG('server: { port: 0 },'))
})

afterEach(async () => {
  await running?.close()
  running = undefined
  rmSync(folder, { recursive: true })
})

async function run(...argv: string[]) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK, command: './collet' })
  return { code: await io.run(...argv), stdout: io.stdout, stderr: io.stderr }
}

const idsOf = async (...argv: string[]): Promise<readonly string[]> =>
  JSON.parse((await run('tools', ...argv, '--json')).stdout).map(({ id }: { id: string }) => id)

/** Lets a server read the sources once, as `collet serve` does. */
async function serveOnce(): Promise<void> {
  const { loadConfig, findConfig } = await import('#config/load')
  const { loadTools } = await import('#config/load-tools')
  const { toSettings } = await import('#config/to-settings')
  const environment = readEnvironment({})
  const loaded = await loadConfig(findConfig(folder, undefined), { variables: {} })
  const { tools } = await loadTools(loaded)
  running = await startServer(toSettings({ loaded, tools, flags: {}, environment, workingFolder: folder }))
}

it('lists the tools of the config and the accepted tools of sources, without a server', async () => {
  expect(await idsOf()).toEqual(['Mail.Send@2.0.0', 'Sms.Send@1.0.0'])
  expect((await run('tools')).stderr).toBe(
    'The tools of the source Shop are not listed, because no server has read it yet. Run "./collet serve"; then "./collet sources" shows its state.\n',
  )
  await serveOnce()
  await running?.close()
  running = undefined
  const { stdout, stderr, code } = await run('tools')
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/Shop\.listOrders@1\.0\.0 +.* connector +read +- /)
  // An override of the operator applies although its upstream was not opened.
  expect(stdout).toMatch(/Shop\.placeOrder@1\.0\.0 +.* connector +write +always /)
  expect(stdout).toMatch(/Shop\.oldSearch@1\.0\.0 +.* deprecated +Searches slowly\./)
  expect(stdout).toMatch(/Sms\.Send@1\.0\.0 +.* TWILIO +TWILIO missing +Does it\.$/m)
})

it('fits a terminal: drops empty columns, then names and facts; the description gets the remaining width', async () => {
  await serveOnce()
  const linesAt = async (columns: number, ...argv: string[]) => {
    let shown = ''
    const write = (text: string) => {
      shown += text
    }
    const stdout = { isTTY: true, columns, write }
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK, stdout })
    expect(await io.run('tools', ...argv)).toBe(0)
    return shown.trimEnd().split('\n')
  }
  const wide = await linesAt(250)
  expect(wide[0]).toMatch(/^TOOL +NAME +CATALOG ID +SOURCE +TIER +APPROVAL +NEEDS +CONDITION +DESCRIPTION$/)
  const narrow = await linesAt(80)
  expect(narrow[0]).toMatch(/^TOOL +TIER .*CONDITION +DESCRIPTION$/)
  expect(Math.max(...narrow.map(({ length }) => length))).toBeLessThanOrEqual(80)
  const [headings] = await linesAt(250, 'mail')
  expect(headings).toMatch(/^TOOL +NAME +CATALOG ID +SOURCE +TIER +DESCRIPTION$/)
})

it('searches, filters and sorts, and reports names that match nothing', async () => {
  await serveOnce()
  expect(await idsOf('send')).toEqual(['Mail.Send@2.0.0', 'Sms.Send@1.0.0'])
  expect(await idsOf('order', 'place')).toEqual(['Shop.placeOrder@1.0.0'])
  expect(await idsOf('--source', 'Shop', '--tier', 'read')).toEqual([
    'Shop.listOrders@1.0.0',
    'Shop.oldSearch@1.0.0',
  ])
  expect(await idsOf('--needs', 'missing')).toEqual(['Sms.Send@1.0.0'])
  expect(await idsOf('--health', 'deprecated')).toEqual(['Shop.oldSearch@1.0.0'])
  expect(await idsOf('--approval', 'always,conditional')).toEqual(['Shop.placeOrder@1.0.0'])
  expect((await idsOf('--sort', 'condition')).slice(0, 2)).toEqual(['Sms.Send@1.0.0', 'Shop.oldSearch@1.0.0'])
  const wrong = await run('tools', '--source', 'Shp')
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('Did you mean "Shop"?')])
  expect((await run('tools', 'nothing-like-this')).stderr).toContain('No tool matches.')
})

it("asks the config's running server, which knows the state of sources", async () => {
  await serveOnce()
  await fetch(`${running?.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'Sms.Send', input: {}, secrets: {} } }),
  })
  await fetch(`${running?.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'Mail.Send', input: {} } }),
  })
  expect((await idsOf('--sort', 'calls'))[0]).toBe('Mail.Send@2.0.0')
  const shown = await run('tools', 'show', 'Shop.listOrders')
  expect(shown.stdout).toMatch(/State +source Shop: ready since /)
})

it('shows one tool, as text and as JSON', async () => {
  const { stdout } = await run('tools', 'show', 'Mail_Send')
  expect(stdout).toContain('Mail.Send@2.0.0')
  expect(stdout).toMatch(/^Policy +changes something \(write\)$/m)
  expect(stdout).toMatch(/^Input +to: string, optional {2}Whom\.$/m)
  expect(stdout).toMatch(/versions 2\.0\.0, 1\.0\.0/)
  const whole = JSON.parse((await run('tools', 'show', 'Mail.Send', '--version', '1.0.0', '--json')).stdout)
  expect(whole).toMatchObject({ id: 'Mail.Send@1.0.0', input_schema: { properties: { to: {} } } })
  expect((await run('tools', 'show', 'Sms.Send')).stdout).toMatch(/^ +\.\/collet secrets set TWILIO$/m)
  const none = await run('tools', 'show', 'Mail.Snd')
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('Did you mean "Mail.Send"?')])
})

it('needs no credential if callers need none, and sends the start token only to this machine', async () => {
  const settings = sqliteSettings({ tools: [] })
  running = await startServer(settings, { graceMs: 0 })
  const { code, stderr } = await run('tools', '--url', running.url)
  expect([code, stderr]).toEqual([0, expect.stringMatching(/^There are no tools\. .*\.\/collet serve/)])
  await running.close()
  rmSync(settings.dataFolder, { recursive: true })
  await serveOnce()
  const seen: (string | null)[] = []
  const fetchSeen: typeof fetch = async (_input, init) => {
    seen.push(new Headers(init?.headers).get('authorization'))
    return Response.json({ tools: [], sources: {}, requirements: [], changes: {} })
  }
  const { port } = new URL(running.url)
  for (const url of [`http://tools.example:${port}`, `http://127.0.0.1:${port}`]) {
    const io = new FakeIo({ ...REAL_SERVICES, fetch: fetchSeen }, { workingFolder: folder })
    await io.run('tools', '--url', url)
  }
  expect(seen).toEqual([null, expect.stringMatching(/^Bearer ./)])
})
