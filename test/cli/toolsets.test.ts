import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { startServer } from '#server/start-server'
import { TOOLS } from '../server/principals-server.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const CONFIG = `
  const tool = (id, safetyTier, tags) => ({
    [Symbol.for('collet.tool')]: true, id, description: 'Does it.', tags,
    input: { type: 'object', properties: {} }, output: {}, policy: { safetyTier }, run: () => 1,
  })
  export default {
    tools: [tool('Crm.Find@1.0.0', 'read', ['search']), tool('Crm.Save@1.0.0', 'write'), tool('Mail.Send@1.0.0', 'write')],
    toolsets: {
      crm: { include: ['Crm.*'], description: 'For sales.' },
      look: { tier: 'read' },
      found: { include: ['tag:search'] },
    },
    auth: {
      roles: { analyst: { scopes: [], toolsets: ['look'] } },
      apiKeys: [{ id: 'agent', key: 'k'.repeat(40), toolsets: ['crm'] }],
    },
  }`

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-toolsets-'))
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
})

afterEach(() => rmSync(folder, { recursive: true }))

async function run(...argv: string[]) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
  return { code: await io.run(...argv), stdout: io.stdout, stderr: io.stderr }
}

it('lists toolsets with their tools and the callers limited to them, with and without a store', async () => {
  const before = await run('toolsets')
  expect([before.code, before.stderr]).toEqual([0, ''])
  expect(before.stdout).toMatch(
    /crm +2 +\/mcp\/crm +agent +- +For sales|crm +2 +\/mcp\/crm +agent +For sales/,
  )
  expect(before.stdout).toMatch(/look +1 +\/mcp\/look +.*analyst/)
  for (const name of ['a', 'b', 'c', 'd']) await run('keys', 'create', name, '--toolset', 'found')
  const after = await run('toolsets')
  expect(after.stdout).toMatch(/found +1 +\/mcp\/found +d, c, b, and 1 more/)
  const { stdout } = await run('toolsets', '--json')
  expect(JSON.parse(stdout)).toMatchObject([
    { name: 'crm', tools: ['Crm.Find@1.0.0', 'Crm.Save@1.0.0'], keys: ['agent'] },
    { name: 'look', tools: ['Crm.Find@1.0.0'], roles: ['analyst'] },
    { name: 'found', keys: ['d', 'c', 'b', 'a'] },
  ])
})

it('collet tools --toolset lists the tools of a toolset of the config or of a server', async () => {
  const ids = async (...argv: string[]) =>
    JSON.parse((await run('tools', ...argv, '--json')).stdout).map(({ id }: { id: string }) => id)
  expect(await ids('--toolset', 'look')).toEqual(['Crm.Find@1.0.0'])
  const wrong = await run('tools', '--toolset', 'lok')
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('Did you mean "look"?')])
  const toolsets = new Map([['say', { include: ['Open.*'], exclude: [] }]])
  const server = await startServer(testSettings({ tools: TOOLS, toolsets }), { graceMs: 0 })
  expect(await ids('--url', server.url, '--toolset', 'say')).toEqual(['Open.Say@1.0.0'])
  const unknown = await run('tools', '--url', server.url, '--toolset', 'sya')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('Did you mean "say"?')])
  await server.close()
})

it('selects tools by the tags that an OpenAPI document had when the definition was accepted', async () => {
  const document = (tag: string) => ({
    openapi: '3.1.0',
    info: { title: 'Shop', version: '1' },
    servers: [{ url: 'https://shop.example' }],
    paths: Object.fromEntries(
      [tag, 'orders'].map((filed, index) => [
        `/p${index}`,
        { get: { operationId: `op${index}`, tags: [filed], responses: { 200: { description: 'ok' } } } },
      ]),
    ),
  })
  const file = join(folder, 'shop.json')
  rmSync(join(folder, 'collet.config.mjs'))
  const toolsets = {
    money: { include: ['tag:Paid-invoices'], exclude: [] },
    slip: { include: ['tag:ordes'], exclude: [] },
  }
  writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ toolsets }))
  writeFileSync(file, JSON.stringify(document('Paid invoices')))
  expect((await run('import', file, '--key', 'Shop', '--yes')).code).toBe(0)
  const serveOnce = async () => {
    const [dataFolder, store] = [join(folder, '.collet'), `sqlite:${join(folder, '.collet', 'collet.db')}`]
    const settings = testSettings({ dataFolder, store, toolsets: new Map(Object.entries(toolsets)) })
    const server = await startServer({ ...settings, masterKey: undefined }, { graceMs: 0 })
    try {
      const listed = await fetch(`${server.url}/tools`, { headers: { 'collet-toolset': 'money' } })
      const { tools } = JSON.parse(await listed.text())
      return { names: tools.map(({ name }: { name: string }) => name), warnings: server.warnings }
    } finally {
      await server.close()
    }
  }
  const first = await serveOnce()
  expect(first.names).toEqual(['Shop_op0'])
  expect(first.warnings.join()).toContain('no tool has the tag "ordes". Did you mean "orders"?')
  writeFileSync(file, JSON.stringify(document('open to all')))
  expect((await serveOnce()).names).toEqual(['Shop_op0'])
  expect(JSON.parse((await run('toolsets', '--json')).stdout)[0].tools).toEqual(['Shop.op0@1.0.0'])
})
