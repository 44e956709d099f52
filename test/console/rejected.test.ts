import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
const WATCHER = 'a-key-of-who-watches-calls-all-day'
const BOT = 'a-key-of-a-bot-that-calls-tools-00'

const collet = useConsole({
  config: `
import { tool } from '${BUILT}'
const key = (id, key, scopes) => ({ id, key, scopes, tenant: 'acme' })
export default {
  auth: { apiKeys: [key('watcher', '${WATCHER}', ['admin:calls']), key('bot', '${BOT}', [])] },
  budgets: [{ for: 'principal', window: '1d', calls: 2 }],
  tools: [tool({ id: 'Mail.Read@1.0.0', description: 'Reads.', input: { type: 'object' }, output: {}, policy: { safetyTier: 'read' }, run: () => 1 })],
}
`,
})

async function call(tool: string): Promise<void> {
  const answer = await fetch(`${collet.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': BOT },
    body: JSON.stringify({ request: { tool_id: tool, input: {} } }),
  })
  await answer.text()
}

describe('requests that are rejected', () => {
  it('are counted beside the calls, and listed with their cause and message', async () => {
    for (const tool of ['Mail.Read', 'Mail.Read', 'Mail.Read', 'Mail.Read', 'Mail.Reed']) await call(tool)
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    await page.getByText('The budget of key:bot is used up.').waitFor()
    await page.getByRole('link', { name: /Calls.*1 budget used up/ }).waitFor()
    const link = page.getByRole('link', { name: '3 rejected' })
    await link.waitFor()
    expect(await link.getAttribute('title')).toBe('2 budget used up, 1 unknown tool')
    await link.click()
    const rows = page.getByRole('table', { name: /Rejected requests/ }).getByRole('row')
    await rows.filter({ hasText: 'budget used up' }).waitFor()
    expect(await rows.filter({ hasText: 'budget used up' }).innerText()).toMatch(
      /\b2\b.*Mail\.Read.*key:bot/s,
    )
    expect(await rows.filter({ hasText: 'unknown tool' }).innerText()).toContain("'Mail.Reed' was not found")
    await checkAxe(page, 'rejected requests')
    await shoot(page, 'calls-rejected')
    await page.goto(`${collet.url}/console/settings`)
    const use = page.getByRole('table', { name: 'Usage by caller' })
    await use.getByRole('columnheader', { name: 'Rejected' }).waitFor()
    await use.getByRole('row', { name: /bot/ }).getByRole('link', { name: '3', exact: true }).click()
    await page.getByRole('table', { name: /Rejected requests/ }).waitFor()
    expect(new URL(page.url()).searchParams.get('q')).toBe('principal:key:bot status:rejected since:24h')
    expect(await collet.command('calls', '--state', 'rejected')).toContain('budget_exceeded')
  })
})
