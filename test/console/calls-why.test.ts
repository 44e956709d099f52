import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { rows } from './calls-fixture.ts'
import { type ConsoleHarness, checkAxe, shoot, useConsole } from './harness.ts'
import { tasksDuring } from './page-tasks.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
const WATCHER = 'a-key-of-who-watches-calls-all-day'
const READER = 'a-key-of-who-may-read-inputs-of-it'
const BOT = 'a-key-of-a-bot-that-calls-tools-00'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

const CONFIG = `
import { tool, ToolError, workflow } from '${BUILT}'
const make = (id, policy, run) =>
  tool({ id, description: 'Does something.', input: { type: 'object' }, output: {}, policy: { egress: 'none', ...policy }, run })
const key = (id, key, scopes) => ({ id, key, scopes, tenant: 'acme' })
const look = make('Orders.Find@1.0.0', { safetyTier: 'read', cost: 2 }, ({ order }) => {
  throw new ToolError('Order ' + order + ' was not found in the warehouse.')
})
const check = make('Bank.Check@1.0.0', { safetyTier: 'read' }, () => 'fine')
const big = make('Big.Rows@1.0.0', { safetyTier: 'read' }, (_, { log }) => {
  log.warn({ rows: 75000 }, 'reading all rows')
  return Array.from({ length: 75_000 }, (_, id) => ({ id, name: 'Row number ' + id, tags: ['a', 'b'], city: 'Berlin' }))
})
const photo = make('Photo.Take@1.0.0', { safetyTier: 'read' }, () => {
  const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  return { content: [{ type: 'image', mimeType: 'image/png', data }] }
})
const broken = make('Code.Break@1.0.0', { safetyTier: 'read' }, () => { throw new TypeError('x is not a function') })
const pay = make('Bank.Pay@2.0.0', { safetyTier: 'write', approval: 'always' }, () => 'paid')
export default {
  auth: { apiKeys: [
    key('watcher', '${WATCHER}', ['admin:calls']),
    key('reader', '${READER}', ['admin:calls', 'calls:read', 'approvals:respond']),
    key('bot', '${BOT}', []),
  ] },
  calls: { maxResultBytes: 10 * 1024 * 1024 },
  tools: [look, check, pay, big, photo, broken, workflow({
    id: 'Orders.Ship@1.0.0', description: 'Ships.', input: { type: 'object' }, output: {}, uses: [check, pay],
    run: async (input, { call }) => [await call(check, input), await call(pay, input)],
  })],
}
`

async function call({ url }: ConsoleHarness, tool: string, more: object, headers = {}): Promise<void> {
  const answer = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': BOT, ...headers },
    body: JSON.stringify({ request: { tool_id: tool, ...more } }),
  })
  await answer.text()
}

describe('why calls fail', () => {
  const collet = useConsole({ config: CONFIG })
  const makeCalls = async (): Promise<void> => {
    const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`
    for (const order of ['A-1', 'B-22', 'C-333'])
      await call(
        collet,
        'Orders.Find',
        { call_id: `find-${order}`, input: { order, password: 'hunter2' } },
        { traceparent },
      )
    await call(collet, 'Bank.Check', { call_id: 'refund-A-1042', input: {} }, { traceparent })
    await call(collet, 'Orders.Ship', { call_id: 'ship-7', input: {} }, { 'collet-run': 'order-7' })
    await call(collet, 'Orders.Lose', { input: {} })
  }

  it('is in the row, in the timeline, and in groups by cause that lead to their calls', async () => {
    await makeCalls()
    const page = await collet.page({ path: '/calls', as: { key: WATCHER }, width: 1440, height: 900 })
    const failed = rows(page).filter({ hasText: 'Order B-22 was not found in the warehouse.' })
    await failed.waitFor()
    expect(await failed.innerText()).toMatch(/otc/)
    // Only those who may read inputs can show their beginnings.
    expect(await page.getByRole('button', { name: 'Inputs' }).count()).toBe(0)
    await checkAxe(page, 'calls with errors')
    await shoot(page, 'calls-why')
    for (const width of [1024, 390]) {
      await page.setViewportSize({ width, height: 900 })
      await checkAxe(page, `calls at ${width}`)
      await shoot(page, `calls-why-${width}`)
    }
    await page.setViewportSize({ width: 1440, height: 900 })
    await failed.waitFor()
    await failed.click()
    const story = page.getByRole('list', { name: 'What happened' })
    await story.getByText('Order B-22 was not found in the warehouse.').waitFor()
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: 'Errors' }).click()
    const groups = page.getByRole('table', { name: /Errors by cause/ })
    const group = groups.getByRole('row').filter({ hasText: 'Order … was not found in the warehouse.' })
    await group.waitFor()
    expect(await group.innerText()).toMatch(/^3\b/)
    await groups.getByRole('row').filter({ hasText: 'unknown tool' }).waitFor()
    expect(await page.locator('.echo code').textContent()).toBe('collet calls errors --since 24h')
    await checkAxe(page, 'errors by cause')
    await shoot(page, 'calls-errors')
    for (const width of [1024, 390]) {
      await page.setViewportSize({ width, height: 900 })
      await checkAxe(page, `errors at ${width}`)
      await shoot(page, `calls-errors-${width}`)
    }
    await page.setViewportSize({ width: 1440, height: 900 })
    await group.getByRole('link').first().click()
    await rows(page).nth(2).waitFor()
    expect(await rows(page).count()).toBe(3)
    expect(await collet.command('calls', 'errors')).toMatch(
      /3\s+1 .*tool_failed\s+Orders\.Find\s+Order … was not found/,
    )
  })

  it('finds a call by whatever id a person pastes', async () => {
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    const field = page.getByRole('combobox', { name: 'Filter calls' })
    await field.fill('refund-A-1042 ')
    await page.getByRole('button', { name: 'Remove id refund-A-1042' }).waitFor()
    await expect.poll(() => rows(page).count()).toBe(1)
    await rows(page).filter({ hasText: 'Bank.Check' }).waitFor()
    await page.getByRole('button', { name: 'Remove id refund-A-1042' }).click()
    await field.fill(`00-${TRACE}-00f067aa0ba902b7-01 `)
    await expect.poll(() => rows(page).count()).toBe(4)
    await page.goto(`${collet.url}/console/calls?q=${encodeURIComponent('error:"c-333 was not"')}`)
    await expect.poll(() => rows(page).count()).toBe(1)
    await rows(page).filter({ hasText: 'C-333' }).waitFor()
    expect(await page.locator('.echo code').textContent()).toBe(
      "collet calls --since 24h --error 'c-333 was not'",
    )
    expect(await collet.command('calls', '--id', 'refund-A-1042')).toContain('Bank.Check')
  })

  it('shows the beginnings of inputs to those who may read them, and journals it', async () => {
    const page = await collet.page({ path: '/calls', as: { key: READER }, width: 1440 })
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Inputs' }).click()
    await rows(page).getByText('order: "B-22", password: [hidden]').waitFor()
    await checkAxe(page, 'calls with inputs')
    const journal = await collet.command('journal', '--action', 'call.shown', '--json')
    expect(journal).toContain('"part":"summary"')
    expect(journal).toContain('"by":"key:reader"')
  })

  it('shows all calls of a run or trace as one waterfall, reachable from each of them', async () => {
    const page = await collet.page({ path: '/calls?q=tool:Orders.Ship', as: { key: READER }, width: 1440 })
    await rows(page).first().click()
    await page.getByRole('complementary', { name: 'Call' }).getByRole('link', { name: 'order-7' }).click()
    const list = page.getByRole('region', { name: /Calls from first to last/ }).getByRole('listitem')
    await expect.poll(() => list.count()).toBe(3)
    expect((await list.allInnerTexts()).map((text) => text.match(/[A-Z]\w+\.\w+/)?.[0])).toEqual([
      'Orders.Ship',
      'Bank.Check',
      'Bank.Pay',
    ])
    await list
      .nth(2)
      .getByText(/waiting for/)
      .waitFor()
    await checkAxe(page, 'a conversation')
    await shoot(page, 'conversation')
    for (const width of [1024, 390]) {
      await page.setViewportSize({ width, height: 900 })
      await checkAxe(page, `a conversation at ${width}`)
      await shoot(page, `conversation-${width}`)
    }
    await page.setViewportSize({ width: 1440, height: 900 })
    expect(await page.locator('.echo code').textContent()).toBe('collet calls conversation --run order-7')
    await list.nth(2).getByRole('link').click()
    await page.getByRole('heading', { name: 'Timeline' }).waitFor()
    expect(await collet.command('calls', 'conversation', '--run', 'order-7')).toMatch(
      /- Bank\.Pay@2\.0\.0 .*waiting/,
    )
  })

  it('is in the log of the call: what the tool logged and what it threw', async () => {
    await call(collet, 'Code.Break', { call_id: 'break-1', input: {} })
    const page = await collet.page({ path: '/calls?q=id:break-1', as: { key: READER }, width: 1440 })
    await rows(page).first().click()
    const detail = page.getByRole('complementary', { name: 'Call' })
    await detail.getByRole('tab', { name: 'Input and output' }).click()
    await detail.getByRole('button', { name: 'Show input and output' }).click()
    const log = detail.getByRole('region', { name: 'Log' })
    await log.getByText(/TypeError: x is not a function/).waitFor()
    await checkAxe(page, 'the log of a call')
    await shoot(page, 'call-log')
    const [{ record = '' } = {}] = JSON.parse(await collet.command('calls', '--id', 'break-1', '--json'))
    expect(await collet.command('calls', 'show', record)).toMatch(
      /log:\n.* error a tool threw\n {4}TypeError: x is not/,
    )
  })

  it('opens a result of 6 MB as a tree without keeping the page busy, with search and download', async () => {
    await call(collet, 'Big.Rows', { call_id: 'big-1', input: {} })
    await call(collet, 'Photo.Take', { call_id: 'photo-1', input: {} })
    const [{ record = '' } = {}] = JSON.parse(await collet.command('calls', '--id', 'big-1', '--json'))
    const page = await collet.page({ path: `/calls/${record}`, as: { key: READER }, width: 1440 })
    const tree = page.getByRole('tree', { name: 'Output' })
    const [opened = 0] = await tasksDuring(page, async () => {
      await page.getByRole('button', { name: 'Show input and output' }).click()
      await tree.getByText('200 – 399').waitFor()
    })
    const [unfolded = 0] = await tasksDuring(page, async () => {
      await tree.getByText('200 – 399').click()
      await tree.getByText('201', { exact: true }).or(tree.getByText('201:')).first().waitFor()
    })
    const [searched = 0] = await tasksDuring(page, async () => {
      await page.getByRole('textbox', { name: 'Search in Output' }).fill('Row number 74321')
      await page.keyboard.press('Enter')
      await tree.getByText('"Row number 74321"').waitFor()
    })
    process.stdout.write(
      `6 MB: longest task when opened, unfolded, searched: ${[opened, unfolded, searched].map(Math.round).join(', ')} ms\n`,
    )
    await page.getByText('reading all rows').waitFor()
    await checkAxe(page, 'a tree')
    await shoot(page, 'call-tree')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download', exact: true }).click(),
    ])
    expect(download.suggestedFilename()).toBe('output.json')
    const photo = JSON.parse(await collet.command('calls', '--id', 'photo-1', '--json'))[0]
    await page.goto(`${collet.url}/console/calls/${photo.record}`)
    await page.getByRole('button', { name: 'Show input and output' }).click()
    await page.getByRole('img', { name: 'Output of the tool' }).waitFor()
  })
})
