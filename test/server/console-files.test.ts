import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { readReplies, request, sendRaw } from './raw-http.ts'

const SCRIPT = `export const text = '${'collet '.repeat(500)}'`
const PAGE =
  '<!doctype html><html><head>\n<base href="/dev/"><script src="./assets/main-1a2b.js"></script></head></html>'

const root = mkdtempSync(join(tmpdir(), 'collet-console-'))
const folder = join(root, 'console')
const servers: RunningServer[] = []

beforeAll(() => {
  mkdirSync(join(folder, 'assets'), { recursive: true })
  writeFileSync(join(root, 'secret.txt'), 'outside')
  writeFileSync(join(folder, 'index.html'), PAGE)
  writeFileSync(join(folder, 'theme.js'), SCRIPT)
  writeFileSync(join(folder, 'assets', 'main-1a2b.js'), SCRIPT)
  writeFileSync(join(folder, 'assets', 'main-1a2b.css'), 'a{}')
  writeFileSync(join(folder, 'assets', 'font-1a2b.woff2'), 'font')
  writeFileSync(join(folder, 'assets', 'main-1a2b.js.map'), '{}')
  symlinkSync(join(root, 'secret.txt'), join(folder, 'assets', 'linked.txt'))
})
afterAll(async () => {
  for (const server of servers) await server.close()
  rmSync(root, { recursive: true, force: true })
})

async function start(changes: Partial<Settings> = {}, consoleFolder = folder): Promise<RunningServer> {
  const dataFolder = mkdtempSync(join(root, 'data-'))
  const server = await startServer(testSettings({ dataFolder, ...changes }), { graceMs: 0, consoleFolder })
  servers.push(server)
  return server
}

/** Sends the target unchanged; `fetch` would normalise it. */
async function rawGet({ url }: RunningServer, target: string, ...headers: readonly string[]) {
  const { port, host } = new URL(url)
  const text = request([`GET ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...headers])
  const [reply] = readReplies(await sendRaw(Number(port), text))
  return {
    status: reply?.status ?? 0,
    headers: reply?.headers,
    bytes: Buffer.from(reply?.body ?? '', 'latin1'),
  }
}

const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

describe('the files of the console', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await start()
  })
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${server.url}${path}`, { headers, redirect: 'manual' })

  it('every address of the console is the page, with all security headers', async () => {
    const paths = [
      '',
      '/',
      '/catalog',
      '/tools/Gmail.Send@1.0.0',
      '/tools/a%2Fb.js',
      '/calls/rec-1',
      '/approvals/x',
    ]
    for (const path of paths) {
      const response = await get(`/console${path}`)
      expect([path, response.status]).toEqual([path, 200])
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
        'content-type': 'text/html; charset=utf-8',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      })
      expect(await response.text()).toBe(
        PAGE.replace('<head>\n<base href="/dev/">', '<head><base href="/console/">\n'),
      )
    }
  })

  it('hashed files are cached forever, others are revalidated, and each has its content type', async () => {
    const headersOf = async (path: string) => {
      const { status, headers } = await get(`/console/${path}`)
      return [status, headers.get('content-type'), headers.get('cache-control')]
    }
    const forever = 'public, max-age=31536000, immutable'
    expect(await headersOf('assets/main-1a2b.js')).toEqual([200, 'text/javascript; charset=utf-8', forever])
    expect(await headersOf('assets/main-1a2b.css')).toEqual([200, 'text/css; charset=utf-8', forever])
    expect(await headersOf('assets/font-1a2b.woff2')).toEqual([200, 'font/woff2', forever])
    expect(await headersOf('theme.js')).toEqual([200, 'text/javascript; charset=utf-8', 'no-cache'])
  })

  it('are compressed for clients that accept it', async () => {
    const ask = (accepted: string, path = '/console/assets/main-1a2b.js') =>
      rawGet(server, path, `Accept-Encoding: ${accepted}`)
    for (const accepted of ['gzip', 'br, gzip', 'GZIP;q=0.5', 'deflate , gzip ; q=1']) {
      const { headers, bytes } = await ask(accepted)
      expect([accepted, headers?.get('content-encoding'), headers?.get('vary')]).toEqual([
        accepted,
        'gzip',
        'accept-encoding',
      ])
      expect(gunzipSync(bytes).toString()).toBe(SCRIPT)
      expect(bytes.length).toBeLessThan(SCRIPT.length / 10)
    }
    for (const accepted of ['', 'br', 'gzip;q=0', 'gzip;q=0.0', 'xgzip']) {
      const { headers, bytes } = await ask(accepted)
      expect([accepted, headers?.get('content-encoding'), headers?.get('vary')]).toEqual([
        accepted,
        undefined,
        'accept-encoding',
      ])
      expect(bytes.toString()).toBe(SCRIPT)
    }
    expect(
      (await ask('gzip', '/console/assets/font-1a2b.woff2')).headers?.get('content-encoding'),
    ).toBeUndefined()
  })

  it('no path leads out of the folder', async () => {
    const paths = [
      ...[
        '/console/../secret.txt',
        '/console/assets/../../secret.txt',
        '/console/assets/..%2f..%2fsecret.txt',
      ],
      ...['/console/%2e%2e/secret.txt', '/console/assets/%2e%2e', '/console/..', '/console/..%5csecret.txt'],
      ...[
        '/console//etc/passwd',
        '/console/assets//etc/passwd',
        '/console/assets/%00',
        '/console/index.html%00.js',
      ],
      ...[
        '/console/assets/linked.txt',
        '/console/assets/main-1a2b.js.map',
        '/console/assets',
        '/console/assets/',
      ],
      ...[
        '/console/assets/__proto__',
        '/console/__proto__',
        '/console/constructor',
        '/console/assets/none.js',
      ],
      ...['/console/%zz', '/console/x.js', '/consolex', '/CONSOLE', '/console/a/b/c', '/console/theme.js/'],
    ]
    for (const path of paths) {
      const { status, bytes } = await rawGet(server, path)
      const text = bytes.toString()
      // A trailing slash redirects to the path without it.
      if (path.endsWith('/')) expect([path, status]).toEqual([path, 308])
      if (status === 308) continue
      expect([path, text.includes('outside'), text.includes('root:')]).toEqual([path, false, false])
      // The page itself reports an unknown address below /console.
      expect([path, status === 200 ? text.includes('<base href="/console/">') : status >= 400]).toEqual([
        path,
        true,
      ])
    }
    for (const path of [
      '/console/assets/linked.txt',
      '/console/assets/none.js',
      '/console/x.js',
      '/console/a/b/c',
    ])
      expect([path, (await get(path)).status]).toEqual([path, 404])
    expect((await fetch(`${server.url}/console`, { method: 'POST' })).status).toBe(405)
    const head = await fetch(`${server.url}/console`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })

  it('an unknown address: an HTML page for browsers, a sentence for programs', async () => {
    for (const path of ['/a/b/c/d', '/calls/rec-1/more', '/none.txt', '/assets/none.js']) {
      const response = await get(`/console${path}`, HTML)
      expect([path, response.status, response.headers.get('cache-control')]).toEqual([path, 404, 'no-store'])
      expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
      expect(await response.text()).toContain('<base href="/console/">')
      expect(await (await get(`/console${path}`)).json()).toEqual({ message: expect.any(String) })
    }
    const posted = await fetch(`${server.url}/console/a/b/c`, { method: 'POST', headers: HTML })
    expect([posted.status, await posted.json()]).toEqual([404, { message: 'There is nothing at this path.' }])
  })

  it('browsers that open the root are redirected to the console, programs get the addresses', async () => {
    const redirect = await get('/', HTML)
    expect([redirect.status, redirect.headers.get('location'), redirect.headers.get('vary')]).toEqual([
      303,
      '/console',
      'accept',
    ])
    for (const accept of ['*/*', 'application/json', 'text/plain, text/htmlx']) {
      const reply = await get('/', { accept })
      expect([reply.status, reply.headers.get('vary')]).toEqual([200, 'accept'])
      expect(await reply.json()).toEqual({
        name: 'collet',
        protocols: {
          mcp: `${server.url}/mcp`,
          otc: `${server.url}/tools`,
          opentool: `${server.url}/opentool`,
          openwop: `${server.url}/v1`,
        },
        console: `${server.url}/console`,
      })
    }
  })
})

it('works below a path prefix of a proxy', async () => {
  const { server: settings } = testSettings({ dataFolder: root })
  const server = await start({ server: { ...settings, publicUrl: 'http://127.0.0.1:7300/tools&co/' } })
  expect(await (await fetch(`${server.url}/console/calls`)).text()).toContain(
    '<base href="/tools&amp;co/console/">',
  )
  const redirect = await fetch(server.url, { headers: HTML, redirect: 'manual' })
  expect(redirect.headers.get('location')).toBe('/tools&co/console')
})

it('a copy that was built without the console reports it, and finds the console once it is built', async () => {
  const later = join(root, 'later')
  const server = await start({}, later)
  const missing = await fetch(`${server.url}/console`)
  expect([missing.status, (await missing.text()).includes('npm run build')]).toEqual([404, true])
  expect((await fetch(server.url, { headers: HTML, redirect: 'manual' })).status).toBe(200)
  mkdirSync(later)
  writeFileSync(join(later, 'index.html'), PAGE)
  expect((await fetch(`${server.url}/console`)).status).toBe(200)
  expect((await fetch(server.url, { headers: HTML, redirect: 'manual' })).status).toBe(303)
})

it('is not served where it is turned off', async () => {
  const server = await start({ console: { enabled: false } })
  expect((await fetch(`${server.url}/console`)).status).toBe(404)
  const page = await fetch(server.url, { headers: HTML, redirect: 'manual' })
  expect([page.status, (await page.text()).includes('Its addresses')]).toEqual([200, true])
})
