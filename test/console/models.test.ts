import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'

const KEY = 'a-key-that-is-long-enough-for-a-test'

/** 60 tools, a toolset in search mode, and a source that is down while there is a file `down`. */
const CONFIG = `
  import { existsSync } from 'node:fs'
  const THINGS = ['Message', 'Label', 'Folder', 'Draft', 'Contact', 'Event', 'Invoice', 'Order', 'Refund', 'Ticket', 'Comment', 'Report']
  const VERBS = { List: 'Lists all', Get: 'Reads one of the', Create: 'Adds to the', Update: 'Changes one of the', Delete: 'Removes one of the' }
  const tool = (id, description, properties) => ({
    [Symbol.for('collet.tool')]: true, id, description, policy: { safetyTier: 'read' },
    input: { type: 'object', properties }, output: {}, run: () => 1,
  })
  const tracker = {
    type: 'custom', kind: 'mcp',
    open: (key) => ({
      key, type: 'custom', kind: 'mcp',
      discover: async () => ({
        identity: { origin: key }, warnings: [],
        tools: [{ nativeName: 'search_issues', description: 'Finds issues by their words.', inputSchema: { type: 'object' }, outputSchema: {}, policy: { safetyTier: 'read' }, binding: {} }],
      }),
      invoke: async () => 1, close: async () => undefined,
      health: () => (existsSync('down') ? { state: 'down', reason: 'connect ECONNREFUSED' } : { state: 'ready' }),
    }),
  }
  export default {
    tools: [
      ...THINGS.flatMap((thing) => Object.entries(VERBS).map(([verb, text]) =>
        tool('Office.' + verb + thing + '@1.0.0', text + ' ' + thing.toLowerCase() + 's.', { id: { type: 'string', description: 'Which one.' } }))),
      tool('Office.Import@1.0.0', 'Imports a file. ' + 'It reads one row after another. '.repeat(40), { file: { type: 'string', description: 'Its path.' } }),
    ],
    sources: { tracker },
    toolsets: { desk: { include: ['Office.*Ticket', 'tracker.*'], discovery: 'search' } },
    auth: { apiKeys: [{ id: 'ann', key: ${JSON.stringify(KEY)}, scopes: [] }] },
    log: { level: 'silent' },
  }`

const table = (page: Page, name: string) => page.getByRole('table', { name })
const answer = (page: Page) => page.getByRole('region', { name: 'Answer of search_tools' })

describe('what models see', () => {
  const collet = useConsole({ config: CONFIG })
  const open = (path: string, more: object = {}) => collet.page({ path, as: { key: KEY }, ...more })

  it('the catalog states the cost of a long list, and links to the page', async () => {
    const page = await open('/tools')
    await page.getByText(/reads about [\d,]+ tokens/).waitFor()
    await checkAxe(page, 'the catalog with a long list')
    await page.getByRole('link', { name: 'What models see' }).first().click()
    const costs = table(page, 'Cost of both ways to list tools')
    await costs.waitFor()
    expect(await costs.locator('tbody tr').nth(0).innerText()).toMatch(/Whole list\s+now\s+63\s/)
    expect(await costs.locator('tbody tr').nth(1).innerText()).toMatch(/Search\s+4\s/)
    expect(await page.getByRole('region', { name: 'Switch to search' }).innerText()).toContain(
      '"discovery": "search"',
    )
    const most = table(page, 'The most expensive tools').locator('tbody tr').first()
    expect(await most.innerText()).toMatch(/Office\.Import/)
    await checkAxe(page, 'what models see')
    await shoot(page, 'models')
  })

  it('shows for a toolset exactly what search_tools answers there, with what cannot be called', async () => {
    writeFileSync(join(collet.folder, 'down'), '')
    await collet.admin('/admin/sources/tracker/refresh', { method: 'POST', body: '{}' })
    const page = await open('/models')
    await page.getByRole('combobox', { name: 'Toolset' }).selectOption('desk')
    await page.waitForURL('**/models?toolset=desk')
    await page.getByRole('searchbox', { name: 'Search as a model' }).fill('find issues and tickets')
    await page.getByText('The source "tracker" is down.').first().waitFor()
    const client = new Client({ name: 'test', version: '1' })
    const headers = { authorization: `Bearer ${KEY}` }
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp/desk`), { requestInit: { headers } }),
    )
    const result = await client.callTool({
      name: 'search_tools',
      arguments: { query: 'find issues and tickets' },
    })
    await client.close()
    expect(result.content).toEqual([{ type: 'text', text: await answer(page).textContent() }])
    expect(await page.locator('.found-tools').innerText()).not.toContain('Invoice')
    await checkAxe(page, 'a search as a model')
    await shoot(page, 'models-search')
    rmSync(join(collet.folder, 'down'))
  })
})
