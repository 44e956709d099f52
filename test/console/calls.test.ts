import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { sized } from '../size.ts'
import { type ConsoleHarness, checkAxe, shoot, useConsole } from './harness.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
const WATCHER = 'a-key-of-who-watches-calls-all-day'
const VIEWER = 'a-key-of-who-may-see-what-happened'
const BOT = 'a-key-of-a-bot-that-calls-tools-00'

const EVIL = '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>'

const CONFIG = `
import { tool, workflow } from '${BUILT}'
const make = (id, policy, run) =>
  tool({ id, description: 'Does something.', input: { type: 'object' }, output: {}, policy, run })
const read = { safetyTier: 'read' }
const write = { safetyTier: 'write' }
const charge = make('stripe.charges_retrieve@1.0.0', { ...read, egress: 'none' }, () => ({ paid: true }))
const refund = make('stripe.refunds_create@1.0.0', { ...write, egress: 'none' }, () => ({ id: 're_1' }))
const pay = make('Bank.Pay@2.0.0', { ...write, approval: 'always' }, () => 'paid')
const key = (id, key, scopes) => ({ id, key, scopes, tenant: 'acme' })
export default {
  ...(process.env.DATABASE_URL ? { store: process.env.DATABASE_URL } : {}),
  auth: {
    apiKeys: [
      key('watcher', '${WATCHER}', ['admin:calls', 'calls:read', 'calls:settle', 'approvals:respond']),
      key('viewer', '${VIEWER}', ['admin:calls']),
      key('support-bot', '${BOT}', ['admin:calls']),
    ],
  },
  tools: [
    make('Gmail.GetEmails@1.2.0', read, (input) => ({ said: input.text ?? 'nothing' })),
    make('Gmail.SendEmail@1.2.0', write, () => process.kill(process.pid, 'SIGKILL')),
    make('github.add_labels@1.0.0', write, () => { throw new Error('no such label') }),
    make('shell.wait@1.0.0', write, (_, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(new Error('stopped'))))),
    pay,
    charge,
    refund,
    workflow({
      id: 'Refunds.Issue@3.0.1', description: 'Refunds.', input: { type: 'object' }, output: {}, uses: [charge, refund],
      run: async (input, { call }) => [await call(charge, input), await call(refund, input)],
    }),
    workflow({
      id: 'Orders.Ship@1.0.0', description: 'Ships.', input: { type: 'object' }, output: {}, uses: [charge, pay],
      run: async (input, { call }) => [await call(charge, input, { step: 'is it paid?' }), await call(pay, input)],
    }),
  ],
}
`

/** Calls a tool as a program does, from outside of the browser. */
async function call(
  { url }: ConsoleHarness,
  tool: string,
  id: string,
  input: object = {},
): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': BOT },
    body: JSON.stringify({ request: { tool_id: tool, call_id: id, input } }),
  }).catch(() => undefined)
  return answer === undefined ? {} : JSON.parse(await answer.text())
}

const rows = (page: Page) => page.locator('table.calls tbody tr[data-record]')
const rowOf = (page: Page, tool: string) => rows(page).filter({ hasText: tool })
const detail = (page: Page) => page.getByRole('complementary', { name: 'Call' })
const queryBar = (page: Page) => page.getByRole('combobox', { name: 'Filter calls' })
const echo = (page: Page) => page.locator('.echo code')

async function untilLive(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Live \d+\/s/ }).waitFor()
}

describe('calls', () => {
  const collet = useConsole({ config: CONFIG })

  it('appear as a second client makes them, and one tells its story', async () => {
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    await page.getByText('No calls yet').waitFor()
    await untilLive(page)
    await call(collet, 'Gmail.GetEmails', 'mails-1')
    await rowOf(page, 'Gmail.GetEmails').waitFor()
    await call(collet, 'github.add_labels', 'labels-1')
    await rowOf(page, 'github.add_labels').getByText('failed').waitFor()
    await call(collet, 'Bank.Pay', 'pay-1')
    await rowOf(page, 'Bank.Pay').getByText('parked').waitFor()
    await call(collet, 'Refunds.Issue', `refund <b>4121</b>`)
    await rowOf(page, 'Refunds.Issue').getByText('succeeded').waitFor()
    // Steps stand below the call that made them.
    const tools = await rows(page).locator('th').allTextContents()
    expect(tools.slice(0, 3)).toEqual(['Refunds.Issue', 'stripe.refunds_create', 'stripe.charges_retrieve'])

    await rowOf(page, 'Refunds.Issue').click()
    await detail(page).getByRole('heading', { name: 'Refunds.Issue' }).waitFor()
    expect(new URL(page.url()).searchParams.get('call')).not.toBe(null)
    await detail(page).getByText('refund <b>4121</b>').waitFor()
    expect(await echo(page).textContent()).toBe(
      `collet calls show ${new URL(page.url()).searchParams.get('call')}`,
    )
    const story = detail(page).getByRole('list', { name: 'What happened' })
    await story.getByText('Claimed').waitFor()
    await story.getByText('Succeeded').waitFor()
    await page.locator('.histo rect.bad:not([height="0"])').first().waitFor()
    await page.getByRole('link', { name: '1 failed' }).waitFor()
    await checkAxe(page, 'calls')
    await page.mouse.move(600, 20)
    await shoot(page, 'calls')
    await story.getByRole('link', { name: 'stripe.refunds_create' }).click()
    await page.getByText('Step of').waitFor()
    await page.goBack()
    await detail(page)
      .getByRole('tab', { name: /Journal rows/ })
      .click()
    await detail(page).getByText('call.claimed').waitFor()
    await detail(page).getByRole('button', { name: 'Copy trace id' }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toMatch(/^[0-9a-f]{32}$/)
    await page.keyboard.press('Escape')
    await detail(page).waitFor({ state: 'detached' })
    expect(await page.evaluate('document.activeElement?.textContent')).toBe('Refunds.Issue')
    await page.keyboard.press('j')
    expect(await page.evaluate('document.activeElement?.textContent')).toBe('stripe.refunds_create')
    await page.keyboard.press('Enter')
    await detail(page).getByRole('heading', { name: 'stripe.refunds_create' }).waitFor()
    await page.getByRole('button', { name: 'Close call' }).click()
    await detail(page).waitFor({ state: 'detached' })
  })

  it('show input and output when somebody asks, as text and nothing else', async () => {
    await call(collet, 'Gmail.GetEmails', EVIL, { text: EVIL })
    const page = await collet.page({ path: '/calls?q=tool:Gmail.*', as: { key: WATCHER } })
    await rows(page).first().click()
    await detail(page).getByRole('tab', { name: 'Input and output' }).click()
    await detail(page).getByText('That you looked is written to the journal').waitFor()
    expect(await detail(page).textContent()).not.toContain('"text"')
    await detail(page).getByRole('button', { name: 'Show input and output' }).click()
    await detail(page).getByRole('region', { name: 'Output' }).waitFor()
    expect(await detail(page).getByRole('region', { name: 'Input' }).textContent()).toContain('<img src=x')
    expect(await detail(page).getByRole('region', { name: 'Output' }).textContent()).toContain('<script>')
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    await page.getByRole('heading', { name: 'Timeline' }).waitFor()
    expect(await page.getByText('onerror').count()).toBeGreaterThan(0)
    expect(await page.evaluate('window.hacked')).toBe(undefined)
    const tryIt = page.getByRole('link', { name: 'Open in Try it' })
    expect(await tryIt.getAttribute('href')).toContain('input=')
    await tryIt.click()
    await page.waitForURL('**/console/tools/Gmail.GetEmails?**')
    await page.getByRole('heading', { name: 'Try it' }).waitFor()
    expect(await page.evaluate('window.hacked')).toBe(undefined)
  })

  it('are hidden from those who may only know what happened', async () => {
    await call(collet, 'Gmail.GetEmails', 'hidden-1')
    const page = await collet.page({ path: '/calls', as: { key: VIEWER } })
    await rows(page).first().click()
    await detail(page).getByRole('tab', { name: 'Input and output' }).click()
    await detail(page).getByText('calls:read').waitFor()
    expect(await page.getByRole('button', { name: 'Show input and output' }).count()).toBe(0)
  })

  it('are filtered by what is typed, which the address and the command line say too', async () => {
    await call(collet, 'Gmail.GetEmails', 'f-1')
    await call(collet, 'github.add_labels', 'f-2')
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    await rows(page).first().waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('status:error ')
    await page.getByRole('button', { name: 'Remove status error' }).waitFor()
    await expect.poll(() => rows(page).getByText('succeeded').count()).toBe(0)
    expect(new URL(page.url()).searchParams.get('q')).toBe('status:error')
    expect(await echo(page).textContent()).toBe('collet calls --state error --follow')
    await page.keyboard.type('too')
    await page.getByRole('option', { name: /^tool:/ }).click()
    await page.keyboard.type('git')
    await page.getByRole('option', { name: /github\.\*/ }).waitFor()
    await checkAxe(page, 'suggestions')
    await page.getByRole('option', { name: /github\.\*/ }).click()
    await page.getByRole('button', { name: 'Remove tool github.*' }).waitFor()
    await page.keyboard.type('duration:quick since:1h ')
    await page.getByText('Write how long: >500ms, <2s or >=1m.').first().waitFor()
    expect(await echo(page).textContent()).toBe(
      "collet calls --state error --tool 'github.*' --since 1h --follow",
    )
    await shoot(page, 'calls-filter')
    // The last word is written again; the other goes by its cross.
    await page.keyboard.press('Backspace')
    expect(await queryBar(page).inputValue()).toBe('since:1h')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Remove since 1h' }).waitFor()
    await page.getByRole('button', { name: 'Remove duration quick' }).click()
    await expect.poll(() => rowOf(page, 'github.add_labels').count()).toBeGreaterThan(0)
    await page.reload()
    await page.getByRole('button', { name: 'Remove since 1h' }).waitFor()
    await queryBar(page).fill('tool:Nobody ')
    await page.getByText('There is another tool').first().waitFor()
    await page.goto(`${collet.url}/console/calls?q=tool:Nobody`)
    await page.getByText('No call matches').waitFor()
    await page.getByRole('button', { name: 'Clear the filter' }).click()
    await rows(page).first().waitFor()
    await page.keyboard.press('l')
    await page.getByRole('button', { name: 'Live', pressed: false }).waitFor()
    expect(await echo(page).textContent()).toBe('collet calls')
    await page.getByRole('link', { name: /failed$/ }).click()
    await page.getByRole('button', { name: 'Remove status failed' }).waitFor()
  })

  it('lead to the approval they wait for, and to the steps of a workflow by the names it gives them', async () => {
    await call(collet, 'Orders.Ship', 'ship-1')
    const page = await collet.page({ path: '/calls?q=tool:Bank.*+status:parked', as: { key: WATCHER } })
    await rowOf(page, 'Bank.Pay').first().click()
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    await page.getByText('Step of').waitFor()
    await page.getByRole('link', { name: 'Open its approval' }).click()
    await page.getByRole('button', { name: 'Approve once' }).click()
    await page.getByText(/^Approved by key:watcher/).waitFor()
    expect(await call(collet, 'Orders.Ship', 'ship-1')).toMatchObject({ result: { success: true } })
    await page.goto(`${collet.url}/console/calls?q=tool:Orders.Ship`)
    await rowOf(page, 'Orders.Ship').click()
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    const story = page.getByRole('list', { name: 'What happened' })
    await story.getByRole('link', { name: 'stripe.charges_retrieve is it paid?' }).click()
    await page.getByText('Orders.Ship, which names it is it paid?').waitFor()
  })

  it('do not move under the pointer', async () => {
    await call(collet, 'Gmail.GetEmails', 'still-0')
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    await untilLive(page)
    await rows(page).first().hover()
    const before = await rows(page).first().getAttribute('data-record')
    for (const n of [1, 2, 3]) await call(collet, 'Gmail.GetEmails', `still-${n}`)
    await page.getByRole('button', { name: '3 new calls' }).waitFor()
    expect(await rows(page).first().getAttribute('data-record')).toBe(before)
    await page.mouse.move(640, 20)
    await page.getByRole('button', { name: '3 new calls' }).waitFor({ state: 'detached' })
    expect(await rows(page).nth(3).getAttribute('data-record')).toBe(before)
    await rows(page).first().hover()
    await call(collet, 'Gmail.GetEmails', 'still-4')
    await page.getByRole('button', { name: '1 new call' }).click()
    await expect.poll(() => rows(page).nth(4).getAttribute('data-record')).toBe(before)
  })

  it('say when older ones cannot be read, and read them when asked again', async () => {
    await Promise.all(Array.from({ length: 110 }, (_, n) => call(collet, 'Gmail.GetEmails', `older-${n}`)))
    const page = await collet.page({ path: '/calls?q=tool:Gmail.*&live=off', as: { key: WATCHER } })
    await rows(page).first().waitFor()
    await page.route(/before=/, (route) => route.fulfill({ status: 503, json: { message: 'Not now.' } }))
    await page.evaluate(TO_THE_END)
    await page.getByText('Older calls could not be read. Not now.').waitFor()
    await checkAxe(page, 'older calls that could not be read')
    await page.unroute(/before=/)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Older calls could not be read.').waitFor({ state: 'detached' })
    await page.evaluate(TO_THE_END)
    await expect.poll(() => page.evaluate(HEIGHT)).toBeGreaterThan(105 * 32)
  })

  it('can be stopped by who made them', async () => {
    const waiting = call(collet, 'shell.wait', 'stop-1')
    const page = await collet.page({ path: '/calls?q=status:running', as: { key: BOT } })
    await rowOf(page, 'shell.wait').click()
    await detail(page).getByRole('button', { name: 'Stop call…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Stop this call?' })
    await dialog.getByRole('button', { name: 'Let it run' }).click()
    await dialog.waitFor({ state: 'detached' })
    await detail(page).getByRole('button', { name: 'Stop call…' }).click()
    await dialog.getByRole('button', { name: 'Stop call' }).click()
    await detail(page).getByText('cancelled').waitFor()
    await rowOf(page, 'shell.wait').waitFor({ state: 'detached' })
    expect(JSON.stringify(await waiting)).toContain('cancelled')
  })

  it('go on where they were when the session ends and somebody signs in again', async () => {
    const made = await collet.admin('/admin/keys', {
      method: 'POST',
      body: JSON.stringify({ principal: 'guest', tenant: 'acme', scopes: ['admin:calls'] }),
    })
    const { key, key_id: keyId } = JSON.parse(await made.text())
    const page = await collet.page({ path: '/calls?q=tool:Gmail.*', as: { key } })
    await untilLive(page)
    expect((await collet.admin(`/admin/keys/${keyId}`, { method: 'DELETE' })).ok).toBe(true)
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    await checkAxe(page, 'the session has ended')
    await dialog.getByLabel('API key').fill(WATCHER)
    await dialog.getByRole('button', { name: 'Sign in with the key' }).click()
    await dialog.waitFor({ state: 'detached' })
    await untilLive(page)
    expect(new URL(page.url()).searchParams.get('q')).toBe('tool:Gmail.*')
    await call(collet, 'Gmail.GetEmails', 'again-1')
    await expect.poll(() => rows(page).count()).toBeGreaterThan(0)
  })

  it('fit a phone', async () => {
    await call(collet, 'github.add_labels', 'phone-1')
    const page = await collet.page({ path: '/calls', as: { key: WATCHER }, width: 390, height: 844 })
    await rows(page).first().waitFor()
    await checkAxe(page, 'calls on a phone')
    await shoot(page, 'calls-390')
    await rows(page).first().click()
    await detail(page).getByRole('list', { name: 'What happened' }).waitFor()
    expect(await rows(page).first().isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Close call' }).click()
    await rows(page).first().waitFor()
  })

  it('keep the page quick at 200 events a second', async () => {
    const page = await collet.page({ path: '/calls', as: { key: WATCHER } })
    await untilLive(page)
    await page.evaluate(WATCH_THE_LOOP)
    const seconds = sized(4, 20)
    const startedAt = performance.now()
    let made = 0
    // A call that writes is two events: it is claimed, and it ends.
    while (performance.now() - startedAt < seconds * 1_000) {
      const due = Math.floor((performance.now() - startedAt) / 10) - made
      await Promise.all(
        Array.from({ length: due }, (_, n) => call(collet, 'stripe.refunds_create', `fast-${made + n}`)),
      )
      made += due
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    await rowOf(page, 'stripe.refunds_create').first().waitFor()
    const took = (performance.now() - startedAt) / 1_000
    const { lags, long } = JSON.parse(String(await page.evaluate('JSON.stringify(window.seen)')))
    const p95 = quantile(lags, 0.95)
    // biome-ignore lint/suspicious/noConsole: the figure is what the story is for.
    console.log(
      `live journal: ${Math.round((2 * made) / took)} events a second for ${took.toFixed(1)} s; the page was late by ${p95.toFixed(1)} ms at the 95th of 100 looks, ${quantile(lags, 1).toFixed(1)} ms at most; ${long.length} long tasks, ${quantile(long, 0.95).toFixed(0)} ms at the 95th`,
    )
    expect(p95).toBeLessThan(50)
  })

  it('are settled by somebody who looked, and nothing shows before the server has answered', async () => {
    await call(collet, 'Gmail.SendEmail', 'credit-note-4121', { to: 'billing@northwind.example' })
    await collet.server.ended
    await collet.restart()
    const page = await collet.page({ path: '/calls?q=status:ambiguous', as: { key: WATCHER } })
    await rowOf(page, 'Gmail.SendEmail').click()
    await detail(page).getByRole('link', { name: 'Settle on its page' }).click()
    await page.getByText('Nobody can tell yet whether this took effect.').waitFor()
    await page.getByRole('list', { name: 'What happened' }).getByText('Ambiguous').waitFor()
    await checkAxe(page, 'an ambiguous call')
    await shoot(page, 'call')
    await page.getByRole('button', { name: 'Settle…' }).click()
    await page.getByText('Say what you found.').waitFor()
    await page.getByText('Say how you know.').waitFor()
    await page.getByLabel('It took effect').check()
    await page.getByRole('textbox', { name: 'Value' }).fill('{"id": ')
    await page.getByRole('textbox', { name: 'Reason' }).fill("Found in Dana's Sent, 12:06:52")
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    await page.getByText('This is no JSON.').waitFor()
    await page.getByRole('textbox', { name: 'Value' }).fill('{"id": "m-1"}')
    expect(await echo(page).textContent()).toMatch(
      /^collet calls settle \S+ --as succeeded --value '\{"id": "m-1"\}' --why 'Found in Dana'\\''s Sent, 12:06:52'$/,
    )
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Settle as succeeded?' })
    await checkAxe(page, 'settling')
    await dialog.getByRole('button', { name: 'Look again' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    await dialog.getByRole('button', { name: 'Settle as succeeded' }).click()
    await page.getByText('Settled as succeeded by key:watcher').waitFor()
    await page.getByText(/^“Found in Dana's Sent/).waitFor()
    expect(await page.getByRole('heading', { name: 'Settle this call' }).count()).toBe(0)
    expect(
      await call(collet, 'Gmail.SendEmail', 'credit-note-4121', { to: 'billing@northwind.example' }),
    ).toMatchObject({
      result: { success: true, value: { id: 'm-1' } },
    })
  })
})

describe('calls on PostgreSQL', () => {
  const collet = useConsole({
    config: CONFIG,
    engine: 'postgres',
    env: { COLLET_KEY: Buffer.alloc(32, 5).toString('base64') },
  })

  it('appear live, and are counted and filtered', async () => {
    const page = await collet.page({ path: '/calls?q=tool:github.*', as: { key: WATCHER } })
    await untilLive(page)
    await call(collet, 'Gmail.GetEmails', 'p-1')
    await call(collet, 'github.add_labels', 'p-2')
    await rowOf(page, 'github.add_labels').getByText('failed').waitFor()
    expect(await rows(page).count()).toBe(1)
    await page.getByRole('link', { name: '1 failed' }).waitFor()
    await rows(page).first().click()
    await detail(page)
      .getByRole('list', { name: 'What happened' })
      .getByText(/^Failed/)
      .waitFor()
  })
})

const TO_THE_END = "document.querySelector('.calls-list').scrollTo(0, 1e6)"
const HEIGHT = "document.querySelector('.calls-list').scrollHeight"

/** How late the page is for what it wanted to do at a time, again and again. */
const WATCH_THE_LOOP = `
window.seen = { lags: [], long: [] }
let due = performance.now() + 20
setInterval(() => {
  window.seen.lags.push(Math.max(0, performance.now() - due))
  due = performance.now() + 20
}, 20)
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.seen.long.push(duration)
}).observe({ entryTypes: ['longtask'] })
`

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
}
