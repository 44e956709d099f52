import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'
import { type Browser, type Page, chromium as playwright } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask } from '../conformance/mcp-talk.ts'
import { runCollet, type ServerProcess, startCollet } from './server-process.ts'

const CONFIG = `
const pay = {
  [Symbol.for('collet.tool')]: true,
  id: 'Bank.Pay@1.0.0',
  description: 'Pays an amount to somebody, from the account of the company.',
  input: { type: 'object' },
  output: {},
  policy: { safetyTier: 'write', approval: 'always' },
  run: () => 'paid',
}
export default { tools: [pay], console: { enabled: false } }
`
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const ZONE = 'Asia/Tokyo'
const LONG = 'a-word-without-any-place-to-break-'.repeat(12)
/** Not the flags that the package proposes, which turn off site isolation. */
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
/** Set it to keep screenshots of the pages. */
const PICTURES = process.env.COLLET_PICTURES

/** A person with a real browser, from the text that an agent shows to the decision. */
describe('the page of an approval in a browser', () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-browser-'))
  let server: ServerProcess
  let browser: Browser
  beforeAll(async () => {
    writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
    server = await startCollet(['serve', '--port', '0'], { cwd: folder })
    const executablePath = await chromium.executablePath()
    browser = await playwright.launch({ executablePath, args: FLAGS, headless: true })
  })
  afterAll(async () => {
    await browser?.close()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const pay = async (note: string): Promise<string> => {
    const params = { name: 'Bank_Pay', arguments: { amount: 250, note } }
    return await (await ask(server.url, { method: 'tools/call', params })).text()
  }

  const addressIn = (text: string): string =>
    /http:\/\/127\.0\.0\.1:\d+\/approvals\/[\w-]+/.exec(text)?.[0] ?? ''

  async function openContext(width: number) {
    const context = await browser.newContext({
      viewport: { width, height: 800 },
      timezoneId: ZONE,
      locale: 'en-GB',
    })
    const refused: string[] = []
    const page = await context.newPage()
    page.on('console', (message) => message.type() === 'error' && refused.push(message.text()))
    page.on('pageerror', (error) => refused.push(error.message))
    return { page, refused, context }
  }

  /** An accessible page: no finding of axe, and nothing wider than the page. */
  async function check(page: Page, name: string): Promise<void> {
    if (PICTURES !== undefined) {
      mkdirSync(PICTURES, { recursive: true })
      await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true })
    }
    const isTooWide = await page.evaluate(
      'document.documentElement.scrollWidth > document.documentElement.clientWidth',
    )
    expect(isTooWide, `${name} is wider than its window`).toBe(false)
    // The debugger may run what the policy of the page forbids.
    await page.evaluate(AXE)
    const found: unknown = await page.evaluate(
      `axe.run().then(({ violations }) => violations.map(({ id, help }) => id + ': ' + help))`,
    )
    expect(found, name).toEqual([])
  }

  it.each([
    ['a desk', 1_280],
    ['a phone', 360],
  ])('on %s: signs in with the link of the CLI, reads, gives a reason, decides', async (name, width) => {
    const where = name.replace(' ', '-')
    const address = addressIn(await pay(`${name} ${LONG}`))
    const { page, refused, context } = await openContext(width)
    await page.goto(address)
    expect(await page.getByRole('button').count()).toBe(0)
    await check(page, `${where}-stranger`)
    // The command that the page shows, in the folder of the config.
    const shown = (await page.locator('pre').first().textContent()) ?? ''
    const { stdout } = await runCollet(shown.trim().split(' ').slice(2), { cwd: folder })
    await page.goto(stdout.trim())
    expect(page.url()).toBe(address)
    const text = (await page.textContent('body')) ?? ''
    for (const part of ['from the account of the company', '"amount": 250', 'anonymous', 'GMT+9'])
      expect(text).toContain(part)
    await check(page, `${where}-question`)
    await page.getByLabel(/Reason/).fill('Invoice 7 is right.')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByRole('heading', { name: 'You approved this call' }).waitFor()
    expect(await page.textContent('body')).toContain('Invoice 7 is right.')
    await check(page, `${where}-decided`)
    expect(await pay(`${name} ${LONG}`)).toContain('paid')
    // Signed in: the next one needs no link.
    await page.goto(addressIn(await pay(`${name} again`)))
    await page.getByLabel(/Reason/).fill('Once is enough.')
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByRole('heading', { name: 'You rejected this call' }).waitFor()
    await page.goto(`${server.url}/approvals`)
    await check(page, `${where}-list`)
    expect(refused).toEqual([])
    await context.close()
  })

  it('a page on another port of this machine cannot submit a decision', async () => {
    const { page, context } = await openContext(800)
    const address = addressIn(await pay('from another page'))
    const { stdout } = await runCollet(['sign-in', '--url', server.url], { cwd: folder })
    await page.goto(stdout.trim())
    await page.goto(address)
    const action = await page.getByRole('button', { name: 'Approve' }).getAttribute('formaction')
    await page.route('http://127.0.0.1:9/', (route) =>
      route.fulfill({
        contentType: 'text/html',
        body: `<form method="post" action="${server.url}${action}"><button>go</button></form>`,
      }),
    )
    await page.goto('http://127.0.0.1:9/')
    await page.getByRole('button').click()
    await page.waitForLoadState()
    await page.goto(address)
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(1)
    await context.close()
  })
})
