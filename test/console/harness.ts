import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import chromium from '@sparticuz/chromium'
import { type Browser, type BrowserContext, type Page, chromium as playwright } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { type ServerProcess, startServerProcess } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'

const ROOT = join(import.meta.dirname, '../..')
const runFile = promisify(execFile)
const PROGRAM = join(ROOT, 'bin/collet.js')

export interface ConsoleOptions {
  /** The text of `collet.config.mjs`, or of the file that is named in `files`. */
  readonly config: string
  /** More files in the server's folder. */
  readonly files?: Readonly<Record<string, string>>
  /** Default SQLite, in the folder. */
  readonly engine?: 'sqlite' | 'postgres'
  readonly env?: Readonly<Record<string, string>>
  /** After `serve --port 0`. */
  readonly args?: readonly string[]
}

interface PageOptions {
  /** Below `/console`; default `/`. */
  readonly path?: string
  /** With a key, with the operator's one-time link, or signed out, which is the default. */
  readonly as?: 'operator' | { readonly key: string }
  readonly width?: number
  readonly height?: number
  readonly theme?: 'light' | 'dark'
  /** Messages that the browser may log in this test. */
  readonly mayComplain?: readonly RegExp[]
}

interface SentRequest {
  readonly method: string
  /** Below the server's address, with its query. */
  readonly path: string
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown
}

export interface ConsoleHarness {
  readonly server: ServerProcess
  /** Address of the server, without a path. */
  readonly url: string
  /** Where the server was started: its config and its `.collet`. */
  readonly folder: string
  /** A one-time link that signs the operator in. */
  link(): Promise<string>
  /** A request to the admin API with the start token. */
  admin(path: string, init?: RequestInit): Promise<Response>
  /** The output of a command, run in the server's folder. */
  command(...argv: readonly string[]): Promise<string>
  /** A browser window with separate cookies. */
  page(options?: PageOptions): Promise<Page>
  /** The requests with a body, or other than GET, that a page has sent so far, oldest first. */
  sent(page: Page, path?: RegExp): readonly SentRequest[]
  /** Takes the faults of the pages in this test, so that they do not fail it. */
  takeFaults(): readonly string[]
  /** Ends the server and starts it again on the same port and folder. */
  restart(): Promise<void>
}

/**
 * For one test file: the built command serves in a separate folder, and one Chromium opens it. A test fails if a page has an error,
 * violates its content policy or sends a request to another host.
 */
export function useConsole(options: ConsoleOptions): ConsoleHarness {
  const folder = mkdtempSync(join(tmpdir(), 'collet-console-'))
  const opened: Watched[] = []
  let server: ServerProcess
  let browser: Browser
  let store: readonly string[] = []

  const serve = (port: string): Promise<ServerProcess> =>
    startServerProcess(
      process.execPath,
      [PROGRAM, 'serve', '--port', port, ...store, ...(options.args ?? [])],
      { cwd: folder, env: { COLLET_KEY: MASTER_KEY, ...options.env, NO_COLOR: '1' } },
    )
  beforeAll(async () => {
    const files = { 'collet.config.mjs': options.config, ...options.files }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    if (options.engine === 'postgres') store = ['--store', await createDatabase('console')]
    const executablePath = await chromium.executablePath()
    ;[server, browser] = await Promise.all([
      serve('0'),
      playwright.launch({ executablePath, args: FLAGS, headless: true }),
    ])
  })
  const takeFaults = (): readonly string[] => opened.flatMap((page) => page.faults.splice(0))
  afterEach(async () => {
    const faults = takeFaults()
    await Promise.all(opened.splice(0).map(({ context }) => context.close()))
    expect(faults, 'faults of the pages').toEqual([])
  })
  afterAll(async () => {
    await browser?.close()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const admin = (path: string, init: RequestInit = {}): Promise<Response> => {
    const token = readFileSync(join(folder, '.collet', `start-token-${new URL(server.url).port}`), 'utf8')
    const headers = { authorization: `Bearer ${token.trim()}`, 'content-type': 'application/json' }
    return fetch(`${server.url}${path}`, { ...init, headers: { ...headers, ...init.headers } })
  }
  const link = async (): Promise<string> => {
    const answer = await (await admin('/admin/sign-in', { method: 'POST', body: '{}' })).text()
    const [found] = /https?:[^"\s]+\/sign-in\/[^"\s]+/.exec(answer) ?? []
    if (found === undefined) throw new Error(`no link in ${answer}`)
    return found
  }
  return {
    folder,
    admin,
    link,
    takeFaults,
    async command(...argv) {
      const env = { ...process.env, COLLET_KEY: MASTER_KEY, NO_COLOR: '1' }
      const { stdout } = await runFile(process.execPath, [PROGRAM, ...argv], { cwd: folder, env })
      return stdout
    },
    sent(page, path = /./) {
      const watched = opened.find((one) => one.page === page)
      return (watched?.sent ?? []).filter((request) => path.test(request.path))
    },
    get server() {
      return server
    },
    get url() {
      return server.url
    },
    async page({ path = '/', as, ...view } = {}) {
      const watched = await openPage(browser, server.url, view)
      opened.push(watched)
      const { page } = watched
      if (as === 'operator') await page.goto(await link())
      else if (as !== undefined) await signIn(watched, server.url, as.key)
      await page.goto(`${server.url}/console${path === '/' ? '' : path}`)
      await page.locator('h1').first().waitFor()
      return page
    },
    async restart() {
      const { port } = new URL(server.url)
      await server.stop()
      server = await serve(port)
    },
  }
}

const MASTER_KEY = randomBytes(32).toString('base64')

/** Not the flags that the browser package proposes, which turn off site isolation. */
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']

interface Watched {
  readonly page: Page
  readonly context: BrowserContext
  readonly faults: string[]
  readonly sent: SentRequest[]
}

async function openPage(browser: Browser, url: string, options: PageOptions): Promise<Watched> {
  const { width = 1280, height = 800, theme = 'light', mayComplain = [] } = options
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    // Animations would make screenshots differ.
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    hasTouch: width < 720,
  })
  // Shorter while a test is written, because a failing test waits for all of it.
  context.setDefaultTimeout(Number(process.env.COLLET_STORY_MS ?? 30_000))
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page = await context.newPage()
  const faults: string[] = []
  const sent: SentRequest[] = []
  page.on('pageerror', (error) => faults.push(`error in the page: ${error.stack ?? error.message}`))
  page.on('console', (message) => {
    const text = message.text()
    // A refused request, which the test checks itself.
    const isAnswer =
      text.startsWith('Failed to load resource') && !message.location().url.includes('/assets/')
    if (message.type() !== 'error' || isAnswer || mayComplain.some((allowed) => allowed.test(text))) return
    faults.push(`message of the browser: ${text}`)
  })
  page.on('request', (request) => {
    const address = new URL(request.url())
    if (address.protocol !== 'data:' && address.origin !== new URL(url).origin)
      faults.push(`a request to ${address.origin}`)
    if (request.method() === 'GET') return
    const body: unknown = request.postDataJSON()
    sent.push({
      method: request.method(),
      path: `${address.pathname}${address.search}`,
      body: body ?? undefined,
    })
  })
  return { page, context, faults, sent }
}

/** Signs in as the dialog does: the window gets the cookie and the token of the session. */
async function signIn({ context, page }: Watched, url: string, key: string): Promise<void> {
  const answer = await context.request.post(`${url}/console/session`, { data: { key } })
  if (!answer.ok()) throw new Error(`not signed in: ${answer.status()} ${await answer.text()}`)
  const { csrf } = await answer.json()
  // A page of the same origin without scripts.
  await page.goto(`${url}/console/session`)
  await page.evaluate(`localStorage.setItem('collet-session /', ${JSON.stringify(csrf)})`)
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Checks accessibility with axe in both themes, and that nothing is wider than the window. */
export async function checkAxe(page: Page, name: string): Promise<void> {
  // Scripts of the debugger are exempt from the content policy.
  await page.evaluate(AXE)
  for (const theme of ['light', 'dark'] as const) {
    await inTheme(page, theme, async () => {
      const found = await page.evaluate(RUN_AXE)
      expect(found, `${name} in the ${theme} theme`).toEqual([])
    })
  }
  const isTooWide = await page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  )
  expect(isTooWide, `${name} is wider than its window`).toBe(false)
}

const RUN_AXE = `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
  .then(({ violations }) => violations.map(({ id, help, nodes }) =>
    id + ': ' + help + ' ' + nodes.slice(0, 3).map(({ html, any }) => html.slice(0, 200) + ' ' + (any[0]?.message ?? '')).join(' | ')))`

/** Screenshots of the page in both themes, in `console/screenshots/`. Only when `COLLET_PICTURES` is set: they are kept with the sources. */
export async function shoot(page: Page, name: string): Promise<void> {
  if (process.env.COLLET_PICTURES === undefined) return
  const folder = join(ROOT, 'console/screenshots')
  mkdirSync(folder, { recursive: true })
  for (const theme of ['light', 'dark'] as const)
    await inTheme(page, theme, () => page.screenshot({ path: join(folder, `${name}-${theme}.png`) }))
}

/** Sets the theme for one action, and restores it afterwards. */
async function inTheme(page: Page, theme: 'light' | 'dark', act: () => Promise<unknown>): Promise<void> {
  const kept = await page.evaluate('document.documentElement.dataset.theme ?? ""')
  await page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
  await act()
  await page.evaluate(
    kept === ''
      ? 'delete document.documentElement.dataset.theme'
      : `document.documentElement.dataset.theme = '${kept}'`,
  )
}
