import { describe, expect, it } from 'vitest'
import { closureOf, KERNEL_ENTRIES } from '../scripts/structure.ts'
import {
  findCycle,
  importsOf,
  readSourceFiles,
  resolveImport,
  runtimeImports,
  type SourceFile,
} from './source-files.ts'

/** Which folder may import which, as ARCHITECTURE.md says. A folder may always import itself. */
const ZONES: readonly { readonly zone: string; readonly files: RegExp; readonly may: readonly string[] }[] = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  {
    zone: 'index',
    files: /^src\/index\.ts$/,
    may: ['base', 'kernel', 'entries', 'config', 'server', 'stages', 'source-kit'],
  },
  { zone: 'base', files: /^src\/kernel\/(base\/|call\/call\.ts$|tool\/tool\.ts$)/, may: [] },
  // Declarations of the admin API, which browsers can load: they import zod and nothing of ours.
  { zone: 'admin-api', files: /^src\/admin-api\//, may: [] },
  // The format of receipts and their verification, which browsers load: it imports nothing of ours.
  { zone: 'receipts', files: /^src\/receipts\//, may: [] },
  { zone: 'schema', files: /^src\/schema\//, may: ['base', 'kernel'] },
  { zone: 'kernel', files: /^src\/kernel\//, may: ['base', 'schema'] },
  // Prompts and resources written as code: definitions that the kernel prepares like tools.
  { zone: 'entries', files: /^src\/entries\//, may: ['base', 'kernel'] },
  { zone: 'stages', files: /^src\/stages\//, may: ['base', 'kernel'] },
  // Parts of recorded results: shortened for models, read by path.
  { zone: 'results', files: /^src\/results\//, may: ['base', 'kernel'] },
  // JSON Schema as TypeScript: files for programs, signatures for models.
  { zone: 'typescript', files: /^src\/typescript\//, may: ['base', 'schema'] },
  { zone: 'search', files: /^src\/search\//, may: ['base', 'kernel', 'typescript'] },
  {
    zone: 'http-exchange',
    files: /^src\/protocols\/(http-exchange|html-page|frame-queue|prepared|trace-context)\.ts$/,
    may: ['base', 'kernel', 'search'],
  },
  {
    zone: 'codec',
    files: /^src\/protocols\/((json-rpc|call-wire)\.ts$|[^/]+\/(wire|codec)[^/]*\.ts$)/,
    may: ['base', 'kernel', 'schema', 'stages', 'http-exchange', 'search'],
  },
  {
    zone: 'protocols',
    files: /^src\/protocols\//,
    may: [
      ...['base', 'kernel', 'schema', 'stages', 'source-kit', 'results', 'codec', 'http-exchange', 'search'],
    ],
  },
  {
    zone: 'store',
    files: /^src\/store\//,
    may: ['base', 'kernel', 'schema', 'stages', 'source-kit', 'receipts'],
  },
  { zone: 'egress', files: /^src\/egress\//, may: ['base', 'kernel', 'source-kit'] },
  { zone: 'source-kit', files: /^src\/sources\/kit\//, may: ['base', 'kernel', 'schema', 'stages'] },
  {
    zone: 'sources',
    files: /^src\/sources\//,
    may: ['base', 'kernel', 'schema', 'stages', 'source-kit', 'codec', 'client'],
  },
  {
    zone: 'config',
    files: /^src\/config\//,
    may: [
      ...['base', 'kernel', 'schema', 'stages', 'source-kit', 'store', 'egress', 'sources', 'protocols'],
      'search',
    ],
  },
  {
    zone: 'auth',
    files: /^src\/(auth|oauth)\//,
    may: ['base', 'kernel', 'stages', 'config', 'http-exchange'],
  },
  { zone: 'client', files: /^src\/client\//, may: ['base', 'kernel', 'schema', 'codec'] },
  {
    zone: 'server',
    files: /^src\/server\//,
    may: [
      ...['base', 'kernel', 'schema', 'stages', 'source-kit', 'codec', 'http-exchange', 'protocols'],
      ...[
        'store',
        'config',
        'auth',
        'client',
        'egress',
        'sources',
        'admin-api',
        'search',
        'results',
        'receipts',
      ],
    ],
  },
  {
    zone: 'cli',
    files: /^src\/cli\//,
    may: [
      ...['base', 'kernel', 'schema', 'stages', 'source-kit', 'store', 'config', 'client', 'server', 'codec'],
      ...['admin-api', 'search', 'typescript', 'receipts'],
    ],
  },
  {
    zone: 'agents',
    files: /^src\/agents\//,
    may: ['base', 'kernel', 'results', 'codec', 'protocols', 'search', 'client', 'server'],
  },
  { zone: 'testing', files: /^src\/testing\//, may: ['base', 'kernel', 'stages', 'store'] },
]

/** The type of the store is inferred from its modules, so these zones import types of the store, and load nothing of it. */
const USES_STORE_TYPES = new Set(['stages', 'source-kit', 'protocols', 'auth', 'testing', 'index'])

/** The order inside the kernel, types included: calls import the rest, and nothing below imports calls. */
const KERNEL: typeof ZONES = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  { zone: 'base', files: /^src\/kernel\/(base\/|call\/call\.ts$|tool\/tool\.ts$)/, may: [] },
  { zone: 'tool', files: /^src\/kernel\/tool\//, may: ['base'] },
  {
    zone: 'records',
    files: /^src\/kernel\/(journal\/|run\/events\.ts$|call\/call-record\.ts$|approval\/approval\.ts$)/,
    may: ['base', 'tool'],
  },
  { zone: 'run', files: /^src\/kernel\/run\//, may: ['base', 'tool', 'records'] },
  { zone: 'approval', files: /^src\/kernel\/approval\//, may: ['base', 'tool', 'records', 'run'] },
  { zone: 'call', files: /^src\/kernel\/call\//, may: ['base', 'tool', 'records', 'run', 'approval'] },
  {
    zone: 'store',
    files: /^src\/kernel\/store\//,
    may: ['base', 'tool', 'records', 'run', 'approval', 'call'],
  },
]

const PLACES = 'start overview tools models tool calls approvals sources access audit settings'.split(' ')

/** The console: places import the frame and the shared components, never each other. From `src/` the console imports only pure modules. */
const CONSOLE: typeof ZONES = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  { zone: 'shared', files: /^src\/(kernel|sources\/kit|stages|admin-api|receipts)\//, may: [] },
  { zone: 'base', files: /^console\/src\/(store|keyboard)\.ts$/, may: [] },
  { zone: 'api', files: /^console\/src\/api\//, may: ['base', 'shared'] },
  { zone: 'parts', files: /^console\/src\/parts\//, may: ['base', 'api'] },
  { zone: 'router', files: /^console\/src\/(main|approval-link|app\/router)\.tsx$/, may: ['*'] },
  { zone: 'verify', files: /^console\/src\/verify\//, may: ['base', 'api', 'parts', 'shared'] },
  { zone: 'app', files: /^console\/src\/app\//, may: ['base', 'api', 'parts', 'shared'] },
  ...PLACES.map((name) => ({
    zone: name,
    files: new RegExp(`^console/src/places/${name}/`),
    may: ['base', 'api', 'parts', 'app', 'shared'],
  })),
]

const SIBLINGS = /^src\/(protocols|sources|stages)\/([^/]+)\//
const SHARED_FOLDERS = new Set(['common', 'kit', 'limits'])

function zoneOf(path: string, zones = ZONES) {
  const found = zones.find(({ files }) => files.test(path))
  if (found === undefined)
    throw new Error(`${path} is in no zone: add its folder to ARCHITECTURE.md and to this test`)
  return found
}

/** Forbidden imports of a file, one sentence each. */
function findViolations(file: SourceFile): readonly string[] {
  const from = zoneOf(file.path)
  if (from.zone === 'tests') return []
  const loaded = runtimeImports(file)
  return file.imports.flatMap((specifier) => {
    if (specifier.startsWith('../')) return [`${file.path}: '${specifier}' climbs; write #folder/file`]
    const target = resolveImport(file.path, specifier)
    if (target === undefined)
      return from.zone === 'client' && specifier !== ''
        ? [`${file.path}: the client has no dependencies, not even ${specifier}`]
        : []
    const to = zoneOf(target)
    const isStoreType = to.zone === 'store' && !loaded.includes(specifier) && USES_STORE_TYPES.has(from.zone)
    const allowed = to.zone === from.zone || from.may.includes(to.zone) || isStoreType
    if (!allowed) return [`${file.path} (${from.zone}) may not import ${target} (${to.zone})`]
    return areSiblings(file.path, target)
      ? [`${file.path} and ${target} are siblings and may not import each other`]
      : []
  })
}

/** Forbidden imports inside the kernel, or inside the console. */
function findViolationsIn(file: SourceFile, zones: typeof ZONES, inside: RegExp): readonly string[] {
  const from = zoneOf(file.path, zones)
  if (from.may.includes('*')) return []
  const loaded = runtimeImports(file)
  return file.imports.flatMap((specifier) => {
    const target = resolveImport(file.path, specifier)
    if (target === undefined || !inside.test(target)) return []
    const to = zoneOf(target, zones)
    const isStoreType = to.zone === 'store' && !loaded.includes(specifier)
    if (to.zone === from.zone || from.may.includes(to.zone) || isStoreType) return []
    return [`${file.path} (${from.zone}) may not import ${target} (${to.zone})`]
  })
}

function areSiblings(from: string, to: string): boolean {
  const [, leftParent, left] = SIBLINGS.exec(from) ?? []
  const [, rightParent, right] = SIBLINGS.exec(to) ?? []
  if (left === undefined || right === undefined || leftParent !== rightParent || left === right) return false
  return !SHARED_FOLDERS.has(right)
}

const files = readSourceFiles('src/**/*.ts')
const pages = readSourceFiles('console/src/**/*.{ts,tsx}')
const IN_KERNEL = /^src\/kernel\//
const IN_CONSOLE = /^(?:console\/)?src\/.*\.tsx?$/

describe('the structure', () => {
  it('reads the source files', () => {
    expect(files.length).toBeGreaterThan(50)
  })

  it('every import is allowed by the table', () => {
    expect(files.flatMap(findViolations)).toEqual([])
  })

  it('keeps the order inside the kernel', () => {
    const kernel = files.filter(({ path }) => path.startsWith('src/kernel/'))
    expect(kernel.flatMap((file) => findViolationsIn(file, KERNEL, IN_KERNEL))).toEqual([])
  })

  it('lets the kernel run without the rest: at run time it imports only itself and the schema checks', () => {
    const loaded = closureOf(files, KERNEL_ENTRIES)
    expect(loaded.filter((path) => !/^src\/(kernel|schema)\//.test(path))).toEqual([])
  })

  it('notices an import upwards in the kernel, also of a type', () => {
    const text =
      "import type { Gateway } from '#kernel/call/gateway'\nimport { fault } from '#kernel/base/errors'\n"
    const file = { path: 'src/kernel/run/feed.ts', text, imports: importsOf(text) }
    const found = findViolationsIn(file, KERNEL, IN_KERNEL)
    expect(found).toEqual(['src/kernel/run/feed.ts (run) may not import src/kernel/call/gateway.ts (call)'])
  })

  it('keeps the places of the console apart', () => {
    expect(pages.flatMap((file) => findViolationsIn(file, CONSOLE, IN_CONSOLE))).toEqual([])
    const text = "import { Page } from '../../app/page.tsx'\nimport { Row } from '../calls/row.tsx'\n"
    const file = { path: 'console/src/places/tool/page.tsx', text, imports: importsOf(text) }
    expect(findViolationsIn(file, CONSOLE, IN_CONSOLE)).toEqual([
      'console/src/places/tool/page.tsx (tool) may not import console/src/places/calls/row.tsx (calls)',
    ])
  })

  it('notices a forbidden import', () => {
    const text = "import { createHttpApp } from '#server/http/app'\nimport x from '../up.ts'\n"
    const found = findViolations({ path: 'src/kernel/call/run.ts', text, imports: importsOf(text) })
    expect(found).toEqual([
      'src/kernel/call/run.ts (kernel) may not import src/server/http/app.ts (server)',
      "src/kernel/call/run.ts: '../up.ts' climbs; write #folder/file",
    ])
  })

  it('reads the environment in one place', () => {
    const readers = files.filter(
      ({ path, text }) => !path.endsWith('.test.ts') && text.includes('process.env'),
    )
    expect(readers.map(({ path }) => path)).toEqual(['src/config/environment.ts'])
  })

  it('rule 33: opens connections only in listed files', () => {
    const callers = files.filter((file) => !file.path.endsWith('.test.ts') && reachesOut(file))
    expect(callers.map(({ path }) => path)).toEqual([
      // Talks to the server that the person at the command line named.
      'src/cli/io.ts',
      'src/egress/agent.ts',
      // Has a socket that is never connected, because a request of Node's must have one.
      'src/server/http/fetch-exchange.ts',
      // Connects to the other replicas, at the addresses that they registered.
      'src/server/replicas/hop.ts',
      // Sends traces to the operator's own collector.
      'src/server/telemetry/otlp.ts',
      // Wraps the pipe to the server that started it.
      'src/sources/pack/child.ts',
      // Connects to the operator's own database.
      'src/store/postgres/connection.ts',
      // Test parts: a gateway without a server.
      'src/testing/test-gateway.ts',
    ])
  })

  it.each([
    "const answer = await fetch('https://a.example')",
    'const options = { fetch, log }',
    'const send = options.fetch ?? fetch',
    'const send = globalThis.fetch',
    "import { request } from 'undici'",
    "import { connect } from 'node:net'",
    "const { get } = await import('node:https')",
    "const { createServer, request } = process.getBuiltinModule('node:http')",
    'new WebSocket(url)',
  ])('notices code that opens a connection: %s', (text) => {
    expect(reachesOut({ path: 'src/kernel/call/run.ts', text, imports: importsOf(text) })).toBe(true)
  })

  it.each([
    'readonly fetch: typeof fetch',
    'readonly fetch?: typeof fetch',
    'get fetch(): typeof fetch {',
    'return this.#services.fetch(resource)',
    '/** `fetch` of the platform. */',
    "import type { Socket } from 'node:net'",
    "import { isIP } from 'node:net'",
    "const { createServer } = process.getBuiltinModule('node:http')",
    "const { createServer: createSecureServer } = process.getBuiltinModule('node:https')",
  ])('accepts %s, which opens no connection', (text) => {
    expect(reachesOut({ path: 'src/kernel/call/run.ts', text, imports: importsOf(text) })).toBe(false)
  })

  it('has no wildcard re-exports and no files with names like utils', () => {
    const bad = files.filter(
      ({ path, text }) => /^export \*/m.test(text) || /\/(utils|helpers|types|common|misc)\.ts$/.test(path),
    )
    expect(bad.map(({ path }) => path)).toEqual([])
  })

  it('has no import cycle', () => {
    expect(findCycle(files)).toBeUndefined()
    expect(findCycle(pages)).toBeUndefined()
  })
})

/** Modules that open connections, but for their types and their readers of addresses. */
const WAYS_OUT = /^(?:undici|node:(?:http2?|https|net|tls|dgram))$/
const HARMLESS_IMPORT =
  /^import (?:type [^;]*?|\{ *(?:(?:type \w+|isIP|isIPv4|isIPv6|BlockList|SocketAddress|createServer|ServerResponse|STATUS_CODES)(?:, *)?)+ *\}) from '[^']+'$/gm
/** Harmless modules that are obtained with `getBuiltinModule`. */
const HARMLESS_TAKING =
  /const \{ *(?:(?:createServer(?:: \w+)?|createSecureContext|IncomingMessage|ServerResponse|STATUS_CODES)(?:, *)?)+ *\} =\s+process\.getBuiltinModule\('[^']+'\)/g

/** Only the browser's client and `src/egress` open connections; every other module gets a `fetch`. */
function reachesOut({ path, text }: SourceFile): boolean {
  if (path.startsWith('src/client/')) return false
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '').replaceAll(HARMLESS_IMPORT, '')
  const usesGlobal =
    /(?<![.\w$#'"`-])(?<!typeof |get )fetch(?![\w'"`-]|\??:)|globalThis\.fetch|new (?:WebSocket|EventSource)\b/.test(
      code,
    )
  const taken = code.replaceAll(HARMLESS_TAKING, '').matchAll(/getBuiltinModule\('([^']+)'\)/g)
  const specifiers = [...importsOf(code), ...[...taken].map(([, specifier = '']) => specifier)]
  return usesGlobal || specifiers.some((specifier) => WAYS_OUT.test(specifier))
}
