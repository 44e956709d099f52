import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { type ConsoleHarness, checkAxe, shoot, useConsole } from './harness.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
const OPERATOR = 'a-key-of-an-operator-of-everything'
const WATCHER = 'a-key-of-who-watches-calls-all-day'
const BOT = 'a-key-of-a-bot-that-calls-tools-00'
const SPENDER = 'a-key-of-a-bot-without-any-budget0'

const CONFIG = `
import { tool } from '${BUILT}'
const make = (id, policy, run) => tool({ id: id + '@1.0.0', description: 'For tests.', input: { type: 'object' }, output: {}, policy, run })
const fail = () => { throw new Error('Broken.') }
export default {
  auth: { apiKeys: [
    { id: 'ops', key: '${OPERATOR}', scopes: ['*'] },
    { id: 'watcher', key: '${WATCHER}', scopes: ['admin:calls'], tenant: 'acme' },
    { id: 'bot', key: '${BOT}', scopes: [] },
    { id: 'spender', key: '${SPENDER}', scopes: [], tenant: 'acme' },
  ] },
  budgets: [{ for: 'tenant', of: ['acme'], window: '1d', calls: 2 }],
  sources: { Gone: { type: 'mcp', url: 'http://127.0.0.1:9/mcp' } },
  tools: [
    make('Mail.Read', { safetyTier: 'read' }, () => 1),
    make('Mail.Send', { safetyTier: 'write' }, fail),
    make('Bank.Pay', { safetyTier: 'write', approval: 'always' }, () => 1),
  ],
}
`

async function call(collet: ConsoleHarness, key: string, tool: string): Promise<void> {
  const answer = await fetch(`${collet.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    body: JSON.stringify({ request: { tool_id: tool, input: {} } }),
  })
  await answer.text()
}

const stat = (page: Page, name: string) =>
  page
    .locator('.stat')
    .filter({ has: page.locator('dt', { hasText: name }) })
    .locator('b')
const query = (page: Page) => new URL(page.url()).searchParams

describe('the overview of a fresh server', () => {
  const collet = useConsole({ config: CONFIG })

  it('names what will appear, shows first calls by itself, and nothing that the credential may not see', async () => {
    const page = await collet.page({ path: '/overview', as: { key: WATCHER } })
    await page.getByRole('heading', { name: 'No calls in this time range' }).waitFor()
    await page.getByText('Nothing needs attention.').waitFor()
    await checkAxe(page, 'the empty overview')
    await shoot(page, 'overview-empty')
    for (const key of [SPENDER, BOT]) await call(collet, key, 'Mail.Read')
    await expect.poll(() => stat(page, 'Calls').textContent()).toBe('1')
    expect(await page.locator('main').innerText()).not.toContain('Gone')
    await page.getByRole('link', { name: /^spender/ }).click()
    await page.getByRole('table', { name: /Calls/ }).waitFor()
    expect(query(page).get('q')).toBe('principal:key:spender tenant:acme since:24h')
  })
})

describe.each(['sqlite', 'postgres'] as const)('the overview on %s', (engine) => {
  const collet = useConsole({ config: CONFIG, engine })

  it('shows how calls go, and leads to the calls and to what needs attention', async () => {
    for (let nth = 0; nth < 6; nth += 1) await call(collet, BOT, 'Mail.Read')
    for (let nth = 0; nth < 2; nth += 1) await call(collet, BOT, 'Mail.Send')
    for (let nth = 0; nth < 5; nth += 1) await call(collet, SPENDER, 'Mail.Read')
    await call(collet, BOT, 'Bank.Pay')
    const page = await collet.page({ path: '/overview', as: { key: OPERATOR } })
    await page.getByRole('link', { name: /Show calls/ }).waitFor()
    // The first key is of the default tenant; only the operator's own sign-in sees every tenant.
    await expect.poll(() => stat(page, 'Calls').textContent()).toBe('8')
    expect(await stat(page, 'Error rate').textContent()).toBe('25')
    await page.getByRole('link', { name: /Gone/ }).waitFor()
    await page.getByRole('link', { name: '1 call is waiting for approval' }).waitFor()
    await page.getByRole('img', { name: '8 calls, 2 errors, 0 rejected requests' }).waitFor()

    const operator = await collet.page({ path: '/overview', as: 'operator' })
    await expect.poll(() => stat(operator, 'Rejected').textContent(), { timeout: 30_000 }).toBe('3')
    expect(await stat(operator, 'Calls').textContent()).toBe('10')
    await operator.getByRole('link', { name: /Budget of tenant acme: 100 %/ }).waitFor()
    const causes = operator.getByRole('table', { name: 'Rejected requests by cause' })
    expect(await causes.getByRole('row', { name: /budget used up/ }).innerText()).toContain('3')
    const failing = operator.getByRole('table', { name: 'Tools with the most errors' })
    await failing
      .getByRole('row', { name: /Mail\.Send/ })
      .getByRole('link', { name: '2' })
      .click()
    await operator.getByRole('table', { name: /Calls/ }).waitFor()
    expect(query(operator).get('q')).toBe('status:error tool:Mail.Send since:24h')
    await operator.goBack()
    await operator
      .getByRole('table', { name: 'Callers with the most requests' })
      .getByRole('row', { name: /spender/ })
      .getByRole('link', { name: '3' })
      .click()
    await operator.getByRole('table', { name: /Rejected requests/ }).waitFor()
    expect(await collet.command('overview', '--url', collet.url)).toMatch(
      /10 calls, 2 errors \(20\.0 %\), 3 rejected requests/,
    )
  })

  it('narrows the time range of all pages by dragging, and keeps it on the page of a tool', async () => {
    const page = await collet.page({ path: '/overview?range=1h', as: 'operator' })
    const chart = page.locator('.u-over').first()
    await chart.waitFor()
    const box = await chart.boundingBox()
    if (box === null) throw new Error('the chart has no size')
    const at = (share: number) => [box.x + box.width * share, box.y + box.height / 2] as const
    await page.mouse.move(...at(0.5))
    await page.mouse.down()
    await page.mouse.move(...at(0.75), { steps: 4 })
    await page.mouse.up()
    await expect.poll(() => query(page).get('range')).toMatch(/Z\.\..*Z$/)
    const range = query(page).get('range') ?? ''
    await page.getByRole('heading', { name: 'No calls in this time range' }).waitFor()
    await page.getByRole('link', { name: 'Tools', exact: false }).first().click()
    await page
      .getByRole('link', { name: /Mail\.Read/ })
      .first()
      .click()
    await expect.poll(() => query(page).get('range')).toBe(range)
    await page.goBack()
    await page.goBack()
    for (const preset of ['1h', '24h', '7d', '30d']) {
      await page.getByRole('button', { name: preset, exact: true }).click()
      await expect.poll(() => stat(page, 'Calls').textContent()).toBe('10')
      expect(await page.locator('.echo code').innerText()).toContain(`overview --range ${preset}`)
    }
  })

  it('is read by everyone, at every width', async () => {
    for (const width of [390, 1024, 1440]) {
      const page = await collet.page({ path: '/overview?range=1h', as: 'operator', width, height: 1000 })
      await page.locator('.u-over').first().waitFor()
      await checkAxe(page, `the overview at ${width} px`)
      if (engine === 'sqlite') await shoot(page, `overview-${width}`)
    }
  })
})
