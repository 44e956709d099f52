import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { basePath } from '#config/to-settings'
import { html, pageReply } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, isForPerson } from '#protocols/http-exchange'
import { messageReply, OPEN_ROUTE, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'

/*
 * Serves the built console below `/console`, the page that checks receipts, and the built page of an approval.
 * Used by the server and by processes that serve only approval pages.
 * Invariant: no path of a request reaches the file system; the first request reads all files, and paths are looked up among them.
 */

/** The folder of the built console, relative to the sources or to the package. */
const BUILT_FOLDER = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../../dist/console/' : '../../console/', import.meta.url),
)
const INDEX = 'index.html'
const APPROVAL = 'approval.html'
const VERIFY = 'verify.html'
const HASHED_FOLDER = 'assets/'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json; charset=utf-8',
  '.woff2': 'font/woff2',
}

/** Types of files that are already compressed. */
const COMPRESSED_TYPES: ReadonlySet<string> = new Set(['.png', '.woff2'])

/** The page loads only from this server, has no inline code, and cannot be framed. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const SECURITY_HEADERS = {
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // With `no-referrer` some browsers post from our pages with `Origin: null`, which the host guard refuses.
  'referrer-policy': 'same-origin',
  'x-frame-options': 'DENY',
}

interface ConsoleFilesOptions {
  /** The folder of the built console; default: the one in this package. */
  readonly folder?: string | undefined
  publicUrl(): string
}

export function createConsoleFiles({ folder = BUILT_FOLDER, publicUrl }: ConsoleFilesOptions) {
  let isFound = false
  let reading: Promise<Files> | undefined
  const isBuilt = (): boolean => {
    isFound ||= existsSync(join(folder, INDEX))
    return isFound
  }
  const files = async (): Promise<Files | undefined> => {
    if (!isBuilt()) return undefined
    reading ??= readFiles(folder, `${basePath(publicUrl())}/console/`)
    // A failure is reported to this request, and the next request tries again.
    return await reading.catch((error: unknown) => {
      reading = undefined
      throw error
    })
  }
  const route = (path: string, find: (all: Files, path: string) => ConsoleFile | undefined): ServerRoute => ({
    ...OPEN_ROUTE,
    method: 'GET',
    path,
    async handle(request) {
      const all = await files()
      if (all === undefined) return notBuilt()
      const found = find(all, request.path.slice('/console/'.length))
      if (found !== undefined) return reply(found, request)
      return isForPerson(request)
        ? unknownAddressPage(files)
        : messageReply(404, 'The console has no such file.')
    },
  })
  const assets = route(`/console/${HASHED_FOLDER}:file`, (all, path) => all.get(path))
  const routes: readonly ServerRoute[] = [
    {
      ...route('/console', (all) => all.get(INDEX)),
      owns: '/console',
      refuse: (request, error, status) =>
        status === 404 && request.method === 'GET' && isForPerson(request) && isBuilt()
          ? unknownAddressPage(files)
          : refuseWithMessage(request, error, status),
    },
    route('/console/', (all) => all.get(INDEX)),
    route('/console/verify', (all) => all.get(VERIFY)),
    assets,
    // The name is that of a page or of a file. Only files have an extension, because ids of tools are in longer paths.
    route(
      '/console/:name',
      (all, path) => all.get(path) ?? (extname(path) === '' ? all.get(INDEX) : undefined),
    ),
    route('/console/:place/:id', (all) => all.get(INDEX)),
  ]
  /** Scripts and styles only, for a process that serves approval pages without the console. */
  const assetRoutes = [
    assets,
    route('/console/:name', (all, path) => (path.endsWith('.html') ? undefined : all.get(path))),
  ]
  /** The built page of one approval, which the server fills in; `undefined` if the console is not built. */
  const approvalPage = async (): Promise<string | undefined> =>
    (await files().catch(() => undefined))?.get(APPROVAL)?.bytes.toString()
  return { isBuilt, routes, assetRoutes, approvalPage }
}

/** Files by their path below `/console/`. */
type Files = ReadonlyMap<string, ConsoleFile>

interface ConsoleFile {
  readonly bytes: Buffer
  readonly headers: Readonly<Record<string, string>>
  readonly isCompressed: boolean
  /** The compressed bytes, made on first use. */
  compressed?: Promise<Buffer>
}

async function readFiles(folder: string, base: string): Promise<Files> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = new Map<string, ConsoleFile>()
  for (const entry of entries) {
    const type = TYPES[extname(entry.name)]
    if (!entry.isFile() || type === undefined) continue
    const file = join(entry.parentPath, entry.name)
    const name = file.slice(join(folder, sep).length).replaceAll(sep, '/')
    const bytes = await readFile(file)
    files.set(name, {
      bytes: name.endsWith('.html') ? withBase(bytes, base) : bytes,
      headers: { ...SECURITY_HEADERS, 'content-type': type, 'cache-control': cachingOf(name) },
      isCompressed: COMPRESSED_TYPES.has(extname(name)),
    })
  }
  return files
}

/** Files in the hashed folder never change under their name. The console's page is never cached; other files are revalidated. */
function cachingOf(name: string): string {
  if (name.startsWith(HASHED_FOLDER)) return 'public, max-age=31536000, immutable'
  return name === INDEX ? 'no-store' : 'no-cache'
}

/** Sets the base of the page's relative URLs: the page is served at paths of several depths, and behind a proxy below another path. */
function withBase(page: Buffer, base: string): Buffer {
  const { text: element } = html`<base href="${base}">`
  const text = page.toString().replace(/<base\b[^>]*>\s*/i, '')
  return Buffer.from(text.replace(/<head\b[^>]*>/i, (head) => `${head}${element}`))
}

async function reply(file: ConsoleFile, { headers }: HttpRequest): Promise<HttpReply> {
  if (file.isCompressed) return { status: 200, headers: file.headers, body: file.bytes }
  const varying = { ...file.headers, vary: 'accept-encoding' }
  if (!acceptsGzip(headers['accept-encoding'])) return { status: 200, headers: varying, body: file.bytes }
  file.compressed ??= compress(file.bytes, { level: 9 })
  return { status: 200, headers: { ...varying, 'content-encoding': 'gzip' }, body: await file.compressed }
}

/** Replies with the console's page, which itself reports the unknown address; the file may have to be read first. */
function unknownAddressPage(files: () => Promise<Files | undefined>): HttpReply {
  return {
    status: 404,
    headers: { ...SECURITY_HEADERS, 'content-type': TYPES['.html'] ?? '', 'cache-control': cachingOf(INDEX) },
    async *body() {
      yield (await files())?.get(INDEX)?.bytes.toString() ?? ''
    },
  }
}

const compress = promisify(gzip)

function acceptsGzip(accepted = ''): boolean {
  return accepted
    .toLowerCase()
    .split(',')
    .some((part) => /^\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$)[\d.]+\s*)?$/.test(part))
}

function notBuilt(): HttpReply {
  const content = html`<p>This copy of Collet was built without its console. In its folder, run:</p>
<pre>npm ci
npm run build:console</pre>
<p>and open this page again. Everything else works without it: see <code>${commandOnPages()} --help</code>.</p>`
  return pageReply(404, { title: 'The console is not built', content })
}
