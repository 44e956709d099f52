import type { Page } from 'playwright-core'
import { describe, expect, it, vi } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'

const ECHO = `{
  [Symbol.for('collet.tool')]: true,
  id: 'Echo.Say@1.0.0',
  description: 'Says it again.',
  input: { type: 'object' },
  output: {},
  run: (input) => input,
}`
const KEY = 'a-key-that-is-long-enough-for-a-test'
const OTHER_KEY = 'a-key-of-somebody-else-for-this-test'
const PLAIN_KEY = 'a-key-of-somebody-who-only-calls-tools'

/** Simulates a return to the window, which refreshes its data. */
const LOOK_AGAIN = 'dispatchEvent(new Event("visibilitychange"))'

const CUT_NAMES = `[...document.querySelectorAll('.places .name')]
  .filter((name) => name.scrollWidth > name.clientWidth)
  .map((name) => name.textContent)`

/** What a browser logs about files that fail to load. */
const MISSING_FILES = [/Failed to load resource/, /PartNotLoaded/, /dynamically imported/, /ERR_/]

async function pathOf(page: Page): Promise<string> {
  return new URL(page.url()).pathname
}

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name })

/** An open server on loopback: the catalog needs no sign-in. */
describe('the frame of the console, open', () => {
  const collet = useConsole({ config: `export default { tools: [${ECHO}] }` })

  it('redirects a browser from the root to the console, but not a program', async () => {
    const page = await collet.page()
    await page.goto(collet.url)
    await heading(page, '').first().waitFor()
    expect(await pathOf(page)).toMatch(/^\/console/)
    const answer = await fetch(collet.url, { headers: { accept: 'application/json' } })
    expect(answer.headers.get('content-type')).toContain('json')
  })

  it('opens every page with the palette', async () => {
    const page = await collet.page({ path: '/tools' })
    await heading(page, 'Tools').waitFor()
    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Page, tool or command' })
    await field.waitFor()
    expect(await page.getByRole('listbox', { name: 'Results' }).getByRole('option').count()).toBe(2)
    await checkAxe(page, 'the palette')
    await shoot(page, 'palette')
    // Faster than a person can type.
    await page.keyboard.type('sett')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/console/settings')
    await page.keyboard.press('Control+k')
    await field.waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/console/tools')
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: 'Settings' }).click()
    await page.waitForURL('**/console/settings')
    await page.keyboard.press('Control+k')
    await field.fill('echo')
    await page.getByRole('option', { name: 'Echo.Say', exact: true }).click()
    await page.waitForURL('**/console/tools/Echo.Say')
    await page.getByRole('button', { name: 'Jump to' }).first().click()
    await field.fill('no such thing')
    await page.getByText('Nothing matches "no such thing".').waitFor()
    await page.keyboard.press('Escape')
    await field.waitFor({ state: 'detached' })
  })

  it('opens pages with keys, lists the shortcuts, and lets them be turned off', async () => {
    const page = await collet.page({ path: '/tools' })
    await heading(page, 'Tools').waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('e')
    await page.waitForURL('**/console/settings')
    await page.keyboard.press('?')
    const letters = page.getByRole('dialog').getByRole('checkbox', { name: 'Enable letter shortcuts' })
    await letters.waitFor()
    await checkAxe(page, 'the map of keys')
    await shoot(page, 'keys')
    await letters.uncheck()
    await page.keyboard.press('Escape')
    await letters.waitFor({ state: 'detached' })
    await page.keyboard.press('g')
    await page.keyboard.press('t')
    await page.keyboard.press('?')
    expect(await letters.count()).toBe(0)
    expect(await pathOf(page)).toBe('/console/settings')
    await page.reload()
    await heading(page, 'Settings').waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Page, tool or command' }).waitFor()
  })

  it('copies the command that does the same', async () => {
    const page = await collet.page({ path: '/tools' })
    const command = await page.locator('.echo code').innerText()
    expect(command).toMatch(/^collet /)
    await page.keyboard.press('y')
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command)
    await page.getByRole('button', { name: 'Copy command' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
  })

  it('keeps the theme, and applies it before the first paint', async () => {
    const page = await collet.page({ path: '/tools' })
    const ground = () => page.evaluate('getComputedStyle(document.body.parentElement).colorScheme')
    await page.keyboard.press('t')
    expect(await ground()).toBe('dark')
    await page.reload({ waitUntil: 'commit' })
    await page.waitForFunction('document.documentElement.dataset.theme === "dark"')
    await page.getByRole('button', { name: 'Switch theme' }).first().click()
    expect(await page.evaluate('localStorage.getItem("collet-theme")')).toBe(null)
  })

  it('requires a sign-in where a page needs one, and the one-time link signs in', async () => {
    const page = await collet.page({ path: '/calls' })
    await page.getByRole('heading', { name: 'Sign in to see this' }).waitFor()
    await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('dialog').getByText('collet sign-in').waitFor()
    await checkAxe(page, 'the dialog to sign in')
    await page.keyboard.press('Escape')
    const known = await collet.page({ path: '/calls', as: 'operator' })
    await heading(known, 'Calls').waitFor()
    await known.getByRole('button', { name: /operator/ }).waitFor()
  })

  it('accepts a sign-in from another window', async () => {
    const page = await collet.page({ path: '/audit' })
    await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('dialog').waitFor()
    const other = await page.context().newPage()
    await other.goto(await collet.link())
    await other.close()
    await page.evaluate('dispatchEvent(new Event("focus"))')
    await heading(page, 'Audit').waitFor()
    expect(await page.getByRole('dialog').count()).toBe(0)
  })

  it('appears at once', async () => {
    const page = await collet.page({ path: '/tools' })
    const loads: number[] = []
    for (let load = 0; load < 3; load++) {
      await page.goto(`${collet.url}/console/calls`, { waitUntil: 'commit' })
      await heading(page, 'Sign in').waitFor()
      loads.push(Number(await page.evaluate('performance.now()')))
    }
    process.stdout.write(`the frame could be used after ${loads.map((ms) => Math.round(ms)).join(', ')} ms\n`)
    expect(Math.min(...loads)).toBeLessThan(1500)
  })

  it('works with more contrast, and with only the colours of the system', async () => {
    const page = await collet.page({ path: '/tools', as: 'operator' })
    await page.emulateMedia({ contrast: 'more' })
    await checkAxe(page, 'more contrast')
    await page.emulateMedia({ contrast: null, forcedColors: 'active' })
    const outline = `getComputedStyle(document.querySelector('.places [aria-current]')).outlineStyle`
    expect(await page.evaluate(outline)).toBe('solid')
  })

  it('is watched: errors, violations of its policy and requests to other hosts fail a test', async () => {
    const page = await collet.page({ path: '/tools' })
    await page.evaluate('setTimeout(() => { throw new Error("on purpose") })')
    await page.evaluate('document.body.insertAdjacentHTML("beforeend", "<i style=\'color: red\'>styled</i>")')
    await page.evaluate('document.body.insertAdjacentHTML("beforeend", "<img src=//[::1]:4444/x.png>")')
    await page.evaluate('fetch("http://[::1]:4444/elsewhere").catch(() => undefined)')
    let faults = ''
    await vi.waitFor(() => {
      faults += collet.takeFaults().join('\n')
      expect(faults).toContain('error in the page: Error: on purpose')
      expect(faults).toMatch(/inline style.*style-src 'self'/s)
      expect(faults).toMatch(/:4444\/x\.png.*img-src 'self' data:/s)
      expect(faults).toMatch(/:4444\/elsewhere.*connect-src 'self'/s)
    })
  })

  it('reports that there is no such page', async () => {
    const page = await collet.page({ path: '/nothing' })
    await page.getByText('There is no page at this address').waitFor()
    await page.goto(`${collet.url}/console/a/b/c/d`)
    await page.getByRole('link', { name: 'Open Tools' }).click()
    await page.waitForURL('**/console/tools')
  })

  it('shows how long the server has been unreachable, and continues by itself', async () => {
    const page = await collet.page({ path: '/calls', as: 'operator' })
    await heading(page, 'Calls').waitFor()
    await collet.server.stop()
    await page.evaluate(LOOK_AGAIN)
    await page.getByText(/^Not connected since \d\d:\d\d:\d\d\./).waitFor()
    await page.getByText(/Not connected, trying again/).waitFor()
    await checkAxe(page, 'offline')
    await shoot(page, 'offline')
    const now = page.getByRole('button', { name: 'Try now' })
    await now.click()
    await page.getByText(/^Not connected since/).waitFor()
    await collet.restart()
    // It may have retried in the meantime; then the button is gone.
    await now.click({ timeout: 2000 }).catch(() => undefined)
    await page.getByText('Connected', { exact: true }).waitFor()
    expect(await page.getByText(/^Not connected since/).count()).toBe(0)
  })

  it('shows a page that was first opened while the server was unreachable as soon as it is back', async () => {
    const page = await collet.page({ path: '/tools', as: 'operator', mayComplain: MISSING_FILES })
    await heading(page, 'Tools').waitFor()
    await page.context().setOffline(true)
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor()
    await page.getByText(/^Not connected since/).waitFor()
    await checkAxe(page, 'a place that did not load')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor()
    // The frame still links to pages that were loaded before.
    await page.getByRole('link', { name: 'Tools' }).first().click()
    await heading(page, 'Tools').waitFor()
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor()
    await page.context().setOffline(false)
    await heading(page, 'Settings').waitFor()
  })

  it('reloads itself once after the server was upgraded', async () => {
    const page = await collet.page({ path: '/tools', as: 'operator', mayComplain: MISSING_FILES })
    await heading(page, 'Tools').waitFor()
    let isGone = true
    await page.route('**/assets/*.js', (route) =>
      isGone ? route.fulfill({ status: 404 }) : route.continue(),
    )
    const again = page.waitForRequest((request) => request.isNavigationRequest())
    await page.getByRole('link', { name: 'Settings' }).click()
    await again
    isGone = false
    await heading(page, 'Settings').waitFor()
    // A file that the newer version also lacks is reported once.
    await page.route('**/assets/*.js', (route) => route.fulfill({ status: 404 }))
    await page.getByRole('link', { name: 'Approvals' }).click()
    await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Try again' }).click()
    await heading(page, 'Approvals').waitFor()
  })

  it.each([
    ['a phone', 390],
    ['a small window', 1000],
    ['a screen', 1280],
  ])('fits %s', async (_, width) => {
    const page = await collet.page({ path: '/tools', width, as: 'operator' })
    await heading(page, 'Tools').waitFor()
    await checkAxe(page, `the frame at ${width}`)
    if (width < 720) expect(await page.evaluate(CUT_NAMES), 'names that are cut').toEqual([])
    await page.getByRole('link', { name: 'Approvals' }).click()
    await heading(page, 'Approvals').waitFor()
    await page.getByRole('button', { name: /operator/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByRole('button', { name: /Not signed in/ }).waitFor()
  })
})

/** A server with keys shows nothing without one. On PostgreSQL. */
describe('the frame of the console, with keys', () => {
  const collet = useConsole({
    engine: 'postgres',
    config: `export default { tools: [${ECHO}], auth: { apiKeys: [
      { id: 'ann', key: '${KEY}', scopes: ['admin:*', 'calls:*'] },
      { id: 'bob', key: '${OTHER_KEY}', scopes: ['admin:calls'] },
      { id: 'cy', key: '${PLAIN_KEY}' },
    ] } }`,
  })

  it('accepts a key, refuses a wrong one, and removes everything at sign-out', async () => {
    const page = await collet.page({ path: '/tools' })
    const field = page.getByLabel('API key')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Sign in with the key' }).click()
    await page.getByText('Paste a key first.').waitFor()
    await field.fill('not-a-key-of-this-server')
    await page.keyboard.press('Enter')
    await page.getByText('Unknown key.').waitFor()
    await checkAxe(page, 'a wrong key')
    await shoot(page, 'sign-in')
    await field.fill(KEY)
    await page.keyboard.press('Enter')
    await heading(page, 'Tools').waitFor()
    expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(KEY)
    expect(await page.evaluate('document.cookie')).toBe('')
    await page.reload()
    await page.getByRole('button', { name: /ann/ }).click()
    const mayAsk = (): Promise<unknown> =>
      page.evaluate("fetch('/admin/calls', { credentials: 'include' }).then(({ status }) => status)")
    const cookies = await page.context().cookies()
    expect(cookies).toHaveLength(1)
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await field.waitFor()
    expect(await page.context().cookies()).toEqual([])
    expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toMatch(/ann/)
    // The session has ended on the server, too: its old cookie opens nothing.
    await page.context().addCookies(cookies)
    expect(await mayAsk()).toBe(401)
    await page.reload()
    await field.waitFor()
  })

  it('sends no request that would be refused, because each refusal is recorded', async () => {
    const page = await collet.page({ path: '/tools', as: { key: PLAIN_KEY } })
    const refused: string[] = []
    page.on('response', (response) => {
      if (response.status() === 403) refused.push(response.url())
    })
    await page.reload()
    await page.getByRole('link', { name: 'Echo.Say' }).click()
    await page.getByRole('heading', { name: 'Try it' }).waitFor()
    const places = page.getByRole('navigation', { name: 'Pages' })
    for (const name of ['Overview', 'Calls', 'Approvals', 'Sources', 'Audit'])
      expect(await places.getByRole('link', { name }).count(), name).toBe(0)
    await page.goto(`${collet.url}/console/calls`)
    await page.getByText('This needs the scope admin:calls').waitFor()
    expect(await page.getByRole('button', { name: /Try again|Waiting/ }).count()).toBe(0)
    await page.goto(`${collet.url}/console/calls/some-record`)
    await page.getByText('This needs the scope admin:calls').waitFor()
    await page.goto(`${collet.url}/console/approvals`)
    await page.getByText('This needs the scope approvals:read or approvals:respond').waitFor()
    await checkAxe(page, 'approvals of somebody without scopes')
    expect(refused).toEqual([])
  })

  it('asks to sign in again over the page after the session has ended, and continues', async () => {
    const page = await collet.page({ path: '/calls', as: { key: KEY } })
    await heading(page, 'Calls').waitFor()
    await page.context().clearCookies()
    await page.evaluate(LOOK_AGAIN)
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByLabel('API key').fill(KEY)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await heading(page, 'Calls').waitFor()
  })

  it('shows no data of one person to the next who signs in', async () => {
    const page = await collet.page({ path: '/tools/Echo.Say', as: { key: KEY } })
    await page.getByRole('textbox', { name: 'Input as JSON' }).fill('{"secret": "of-ann"}')
    await page.getByRole('button', { name: /^Run/ }).click()
    await page.getByRole('region', { name: 'Result' }).getByRole('link').first().click()
    await page.waitForURL('**/console/calls/*')
    await page.getByRole('button', { name: 'Show input and output' }).click()
    await page.getByText('of-ann').first().waitFor()
    await page.getByRole('link', { name: 'Tools' }).first().click()
    await heading(page, 'Tools').waitFor()
    await page.context().clearCookies()
    await page.evaluate('window.isTheSamePage = true')
    await page.getByRole('link', { name: 'Calls' }).first().click()
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
    await page.getByLabel('API key').fill(OTHER_KEY)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: /bob/ }).waitFor()
    expect(await page.evaluate('window.isTheSamePage')).toBe(undefined)
    expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(
      'of-ann',
    )
    await page.goBack()
    await page.goBack()
    await page.waitForURL('**/console/calls/*')
    await page
      .getByText(/scope calls:read|There is no call|no such call/i)
      .first()
      .waitFor()
    expect(await page.getByText('of-ann').count()).toBe(0)
    await page.goBack()
    await page.waitForURL('**/console/tools/Echo.Say')
    await page.getByRole('textbox', { name: 'Input as JSON' }).waitFor()
    expect(await page.content()).not.toContain('of-ann')
  })
})
