import { describe, expect, it } from 'vitest'
import { findUntruths, readPages } from '../scripts/docs.ts'
import { findFaults, readHouse } from '../scripts/house.ts'
import { importsOf, readSourceFiles, resolveImport, runtimeImports, type SourceFile } from './source-files.ts'

/** Who may import whom, as ARCHITECTURE.md says. A zone always may import itself. */
const ZONES: readonly { readonly zone: string; readonly files: RegExp; readonly may: readonly string[] }[] = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  { zone: 'index', files: /^src\/index\.ts$/, may: ['core', 'config', 'server'] },
  { zone: 'core', files: /^src\/core\//, may: [] },
  {
    zone: 'http-exchange',
    files: /^src\/protocols\/(http-exchange|html-page|frame-queue)\.ts$/,
    may: ['core'],
  },
  { zone: 'prepared', files: /^src\/protocols\/prepared\.ts$/, may: ['core', 'http-exchange'] },
  {
    zone: 'codec',
    files: /^src\/protocols\/((json-rpc|call-wire)\.ts$|[^/]+\/(wire|codec)[^/]*\.ts$)/,
    may: ['core', 'http-exchange'],
  },
  {
    zone: 'protocol-list',
    files: /^src\/protocols\/(list|protocol|[^/]+\/protocol)\.ts$/,
    may: ['core', 'codec', 'http-exchange', 'protocols'],
  },
  {
    zone: 'protocols',
    files: /^src\/protocols\/[^/]+\//,
    may: ['core', 'codec', 'http-exchange', 'prepared', 'protocol-list'],
  },
  { zone: 'stores', files: /^src\/store\/stores\.ts$/, may: ['core', 'store'] },
  { zone: 'store', files: /^src\/store\//, may: ['core'] },
  { zone: 'egress', files: /^src\/egress\//, may: ['core'] },
  { zone: 'source-options', files: /^src\/sources\/([^/]+\/options|common\/[^/]+)\.ts$/, may: ['core'] },
  {
    zone: 'source-types',
    files: /^src\/sources\/source-types\.ts$/,
    may: ['core', 'source-options', 'sources'],
  },
  { zone: 'sources', files: /^src\/sources\//, may: ['core', 'codec', 'source-options', 'client'] },
  {
    zone: 'config',
    files: /^src\/config\//,
    may: ['stores', 'core', 'egress', 'source-types', 'protocol-list'],
  },
  { zone: 'auth', files: /^src\/auth\//, may: ['core', 'config', 'http-exchange'] },
  { zone: 'oauth', files: /^src\/oauth\//, may: ['core', 'config', 'http-exchange'] },
  { zone: 'client', files: /^src\/client\//, may: ['core', 'codec'] },
  {
    zone: 'server',
    files: /^src\/server\//,
    may: [
      'core',
      'codec',
      'http-exchange',
      'prepared',
      'protocols',
      'protocol-list',
      'store',
      'stores',
      'config',
      'auth',
      'oauth',
      'client',
      'egress',
      'sources',
      'source-types',
      'source-options',
    ],
  },
  {
    zone: 'cli',
    files: /^src\/cli\//,
    may: ['stores', 'core', 'config', 'client', 'server', 'codec'],
  },
  { zone: 'testing', files: /^src\/testing\//, may: ['core', 'store'] },
]

/**
 * The rooms of core, from the ground up; types count too. A call stands on everything, and nothing of core knows of calls: a
 * workflow makes its steps through a port, sessions end what runs in them through another.
 */
const CORE: typeof ZONES = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  { zone: 'base', files: /^src\/core\/[^/]+\.ts$/, may: [] },
  { zone: 'schema', files: /^src\/core\/schema\//, may: ['base'] },
  { zone: 'tools', files: /^src\/core\/tools\//, may: ['base', 'schema'] },
  // What is recorded, and who keeps it: pure data.
  { zone: 'records', files: /^src\/core\/(ports\/|journal\/|runs\/events\.ts$)/, may: ['base', 'tools'] },
  { zone: 'limits', files: /^src\/core\/limits\//, may: ['base', 'records'] },
  { zone: 'credentials', files: /^src\/core\/credentials\//, may: ['base', 'records'] },
  {
    zone: 'runs',
    files: /^src\/core\/runs\//,
    may: ['base', 'records', 'tools', 'limits', 'credentials'],
  },
  { zone: 'approvals', files: /^src\/core\/approvals\//, may: ['base', 'records', 'runs'] },
  {
    zone: 'workflow',
    files: /^src\/core\/workflow\//,
    may: ['base', 'records', 'tools', 'runs', 'approvals'],
  },
  {
    zone: 'imports',
    files: /^src\/core\/imports\//,
    may: ['base', 'schema', 'records', 'tools', 'approvals'],
  },
  {
    zone: 'calls',
    files: /^src\/core\/calls\//,
    may: ['base', 'records', 'tools', 'limits', 'credentials', 'runs', 'approvals', 'workflow'],
  },
]

/** The console: places stand on the frame and on parts, and know nothing of each other. Of the server's sources it shares what is pure. */
const CONSOLE: typeof ZONES = [
  { zone: 'tests', files: /\.test\.ts$/, may: ['*'] },
  { zone: 'shared', files: /^src\/core\//, may: [] },
  { zone: 'base', files: /^console\/src\/(store|keyboard)\.ts$/, may: [] },
  { zone: 'api', files: /^console\/src\/api\//, may: ['base', 'shared'] },
  { zone: 'parts', files: /^console\/src\/parts\//, may: ['base', 'api'] },
  { zone: 'router', files: /^console\/src\/(main|app\/router)\.tsx$/, may: ['*'] },
  { zone: 'app', files: /^console\/src\/app\//, may: ['base', 'api', 'parts', 'shared'] },
  ...['catalog', 'tool', 'calls', 'approvals', 'connections', 'settings', 'start'].map((name) => ({
    zone: name,
    files: new RegExp(`^console/src/places/${name}/`),
    may: ['base', 'api', 'parts', 'app', 'shared'],
  })),
]

const SIBLINGS = /^src\/(protocols|sources|store)\/([^/]+)\//
const SHARED_ROOMS = new Set(['common'])
const LONGEST_TEST = 400

function zoneOf(path: string, zones = ZONES) {
  const found = zones.find(({ files }) => files.test(path))
  if (found === undefined)
    throw new Error(`${path} is in no zone: add its room to ARCHITECTURE.md and to this test`)
  return found
}

/** What is wrong with a file's imports; empty when nothing is. */
function findViolations(file: SourceFile): readonly string[] {
  const from = zoneOf(file.path)
  if (from.zone === 'tests') return []
  return file.imports.flatMap((specifier) => {
    if (specifier.startsWith('../')) return [`${file.path}: '${specifier}' climbs; write #room/file`]
    const target = resolveImport(file.path, specifier)
    if (target === undefined)
      return from.zone === 'client' && specifier !== ''
        ? [`${file.path}: the client has no dependencies, not even ${specifier}`]
        : []
    const to = zoneOf(target)
    const allowed = to.zone === from.zone || from.may.includes(to.zone)
    if (!allowed) return [`${file.path} (${from.zone}) may not import ${target} (${to.zone})`]
    return areSiblings(file.path, target)
      ? [`${file.path} and ${target} are siblings and may not know each other`]
      : []
  })
}

/** The same inside of core, and inside of the console. */
function findViolationsIn(file: SourceFile, zones: typeof ZONES, inside: RegExp): readonly string[] {
  const from = zoneOf(file.path, zones)
  if (from.may.includes('*')) return []
  return file.imports.flatMap((specifier) => {
    const target = resolveImport(file.path, specifier)
    if (target === undefined || !inside.test(target)) return []
    const to = zoneOf(target, zones)
    if (to.zone === from.zone || from.may.includes(to.zone)) return []
    return [`${file.path} (${from.zone}) may not import ${target} (${to.zone})`]
  })
}

function areSiblings(from: string, to: string): boolean {
  const [, leftRoom, left] = SIBLINGS.exec(from) ?? []
  const [, rightRoom, right] = SIBLINGS.exec(to) ?? []
  if (left === undefined || right === undefined || leftRoom !== rightRoom || left === right) return false
  return !SHARED_ROOMS.has(right)
}

const files = readSourceFiles('src/**/*.ts')
const pages = readSourceFiles('console/src/**/*.{ts,tsx}')
const IN_CORE = /^src\/core\//
const IN_CONSOLE = /^(?:console\/)?src\/.*\.tsx?$/

describe('the house', () => {
  it('has files to look at', () => {
    expect(files.length).toBeGreaterThan(50)
  })

  it('keeps its doors: every import is allowed by the table', () => {
    expect(files.flatMap(findViolations)).toEqual([])
  })

  it('keeps the rooms of core in order: what stands below knows nothing of what stands on it', () => {
    const core = files.filter(({ path }) => path.startsWith('src/core/'))
    expect(core.flatMap((file) => findViolationsIn(file, CORE, IN_CORE))).toEqual([])
  })

  it('notices a look upwards in core, also at a type', () => {
    const text = "import type { Gateway } from '#core/calls/gateway'\nimport { fault } from '#core/errors'\n"
    const file = { path: 'src/core/runs/feed.ts', text, imports: importsOf(text) }
    const found = findViolationsIn(file, CORE, IN_CORE)
    expect(found).toEqual(['src/core/runs/feed.ts (runs) may not import src/core/calls/gateway.ts (calls)'])
  })

  it('keeps the places of the console apart', () => {
    expect(pages.flatMap((file) => findViolationsIn(file, CONSOLE, IN_CONSOLE))).toEqual([])
    const text = "import { Page } from '../../app/page.tsx'\nimport { Row } from '../calls/row.tsx'\n"
    const file = { path: 'console/src/places/tool/page.tsx', text, imports: importsOf(text) }
    expect(findViolationsIn(file, CONSOLE, IN_CONSOLE)).toEqual([
      'console/src/places/tool/page.tsx (tool) may not import console/src/places/calls/row.tsx (calls)',
    ])
  })

  it('notices a forbidden door', () => {
    const text = "import { createHttpApp } from '#server/http/app'\nimport x from '../up.ts'\n"
    const found = findViolations({ path: 'src/core/tool.ts', text, imports: importsOf(text) })
    expect(found).toEqual([
      'src/core/tool.ts (core) may not import src/server/http/app.ts (server)',
      "src/core/tool.ts: '../up.ts' climbs; write #room/file",
    ])
  })

  it('is cut into concepts: no crowded folder, no endless module, no scrap of another module, no needless export', () => {
    expect(findFaults(readHouse())).toEqual([])
  })

  it('notices a crowded folder, an endless module, a scrap and a needless export', () => {
    const plain = { lines: 99, importers: [], needless: [] }
    const shelf = Array.from({ length: 21 }, (_, n) => ({ ...plain, path: `src/a/${n}.ts` }))
    const endless = { ...plain, path: 'src/b/long.ts', lines: 501 }
    const scrap = { ...plain, path: 'src/b/scrap.ts', lines: 59, importers: ['src/b/long.ts'] }
    const shown = { ...plain, path: 'src/b/shown.ts', needless: ['inside'] }
    const found = findFaults([...readHouse(), ...shelf, endless, scrap, shown])
    expect(found).toEqual([
      'src/a has 21 source files; the most is 20',
      'src/b/long.ts has 501 lines; split it where it is two concepts',
      'src/b/scrap.ts has 59 lines and one importer: make it a private part of src/b/long.ts',
      'src/b/shown.ts exports inside, which no other file imports',
    ])
  })

  it('is what its pages say: links lead somewhere, files that are named are there', () => {
    expect(findUntruths(readPages())).toEqual([])
  })

  it('notices a link, a heading and a file that are not there', () => {
    const text = '[a](no.md) [b](README.md#no) `core/no.ts` [c](README.md)'
    expect(findUntruths([...readPages(), { path: 'NEW.md', text }])).toEqual([
      'NEW.md links to no.md, which is not there',
      'NEW.md links to README.md#no, a heading that is not there',
      'NEW.md names core/no.ts, which is not there',
    ])
  })

  it('keeps tests short enough to read', () => {
    const all = readSourceFiles('{src/**/*.test.ts,{test,bench,examples,scripts}/**/*.{ts,mjs}}')
    const long = all.filter(({ text }) => text.split('\n').length > LONGEST_TEST).map(({ path }) => path)
    expect(long).toEqual([])
  })

  it('reads the environment in one place', () => {
    const readers = files.filter(
      ({ path, text }) => !path.endsWith('.test.ts') && text.includes('process.env'),
    )
    expect(readers.map(({ path }) => path)).toEqual(['src/config/environment.ts'])
  })

  it('rule 33: has one way out', () => {
    const callers = files.filter((file) => !file.path.endsWith('.test.ts') && reachesOut(file))
    expect(callers.map(({ path }) => path)).toEqual([
      // Talks to the server that the person at the command line named.
      'src/cli/io.ts',
      'src/egress/agent.ts',
      // Has a socket that is never connected, because a request of Node's must have one.
      'src/server/http/fetch-exchange.ts',
      // Connects to the other replicas, where they said that they are.
      'src/server/replicas/hop.ts',
      // Sends traces to the operator's own collector.
      'src/server/telemetry/tracing.ts',
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
  ])('notices another way out: %s', (text) => {
    expect(reachesOut({ path: 'src/core/tool.ts', text, imports: importsOf(text) })).toBe(true)
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
  ])('takes %s for none', (text) => {
    expect(reachesOut({ path: 'src/core/tool.ts', text, imports: importsOf(text) })).toBe(false)
  })

  it('has no wildcard re-exports and no files named for nothing', () => {
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
  /^import (?:type [^;]*?|\{ *(?:(?:type \w+|isIP|isIPv4|isIPv6|createServer|ServerResponse|STATUS_CODES)(?:, *)?)+ *\}) from '[^']+'$/gm
/** The same of a module that is not imported but asked for. */
const HARMLESS_TAKING =
  /const \{ *(?:(?:createServer(?:: \w+)?|createSecureContext|IncomingMessage|ServerResponse|STATUS_CODES)(?:, *)?)+ *\} =\s+process\.getBuiltinModule\('[^']+'\)/g

/** The browser's client and the egress room are what reaches out; everybody else is handed a `fetch`. */
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

function findCycle(all: readonly SourceFile[]): readonly string[] | undefined {
  const byPath = new Map(all.map((file) => [file.path, file]))
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): readonly string[] | undefined => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path]
    const file = byPath.get(path)
    if (file === undefined || done.has(path)) return undefined
    for (const specifier of runtimeImports(file)) {
      const target = resolveImport(path, specifier)
      const cycle = target === undefined ? undefined : visit(target, [...trail, path])
      if (cycle !== undefined) return cycle
    }
    done.add(path)
    return undefined
  }
  for (const { path } of all) {
    const cycle = visit(path, [])
    if (cycle !== undefined) return cycle
  }
  return undefined
}
