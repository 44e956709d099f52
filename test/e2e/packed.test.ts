import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startServerProcess } from './server-process.ts'
import { playMcpServersStory } from './story-mcp-servers.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const LIMIT_MS = 120_000

const PACK = `import { tool } from 'collet'
export const wind = tool({
  id: 'Weather.Wind@1.0.0',
  description: 'How hard the wind blows.',
  input: { type: 'object', properties: { place: { type: 'string', description: 'Where.' } }, required: ['place'] },
  output: { type: 'string' },
  run: ({ place }) => \`A breeze in \${place}.\`,
})`
const PACK_MANIFEST = JSON.stringify({
  name: 'community.example.weather',
  version: '1.0.0',
  runtime: { language: 'javascript', entry: 'index.js', requires: ['clock'] },
})
const DOCUMENT = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Shop', version: '1' },
  servers: [{ url: 'http://127.0.0.1:9' }],
  paths: {
    '/orders': {
      get: {
        operationId: 'listOrders',
        summary: 'List orders.',
        responses: { 200: { description: 'All.' } },
      },
    },
  },
})

let project: string
let server: ServerProcess | undefined

function npm(...argv: readonly string[]): string {
  return execFileSync('npm', argv, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

function readJson(file: string) {
  return JSON.parse(readFileSync(file, 'utf8'))
}

interface LockedPackage {
  readonly version?: string
  readonly dev?: boolean
  readonly devOptional?: boolean
}

/** A lock file for a project that depends on the packed tarball, so that npm needs nothing but its cache. */
function writeProject(tarball: string): void {
  const { version, dependencies, bin } = readJson(join(ROOT, 'package.json'))
  const locked: [string, LockedPackage][] = Object.entries(readJson(join(ROOT, 'package-lock.json')).packages)
  const registry = npm('config', 'get', 'registry').trim().replace(/\/$/, '')
  const needed = locked
    .filter(([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true)
    // What a package with a shrinkwrap needs lies below it, as it was locked there.
    .map(([path, entry]) => [
      `node_modules/collet/${path}`,
      { ...entry, resolved: tarballUrl(registry, path, entry) },
    ])
  const own = { name: 'consumer', version: '1.0.0', dependencies: { collet: `file:${tarball}` } }
  const packages = {
    '': own,
    'node_modules/collet': { version, dependencies, bin, hasShrinkwrap: true, resolved: `file:${tarball}` },
    ...Object.fromEntries(needed),
  }
  writeFileSync(join(project, 'package.json'), JSON.stringify({ ...own, type: 'module', private: true }))
  writeFileSync(
    join(project, 'package-lock.json'),
    JSON.stringify({ ...own, lockfileVersion: 3, requires: true, packages }),
  )
}

function tarballUrl(registry: string, path: string, { version = '' }: LockedPackage): string {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  return `${registry}/${name}/-/${name.slice(name.indexOf('/') + 1)}-${version}.tgz`
}

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'collet-packed-'))
  // Packing builds by itself, so that nobody publishes an old build or none.
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true })
  execFileSync('npm', ['pack', '--silent', '--pack-destination', project], { cwd: ROOT, stdio: 'pipe' })
  writeProject(readdirSync(project).find((name) => name.endsWith('.tgz')) ?? '')
  npm('ci', '--offline')
}, LIMIT_MS)

afterAll(async () => {
  await server?.stop('SIGKILL')
  rmSync(project, { recursive: true })
})

describe('the packed package, installed elsewhere', () => {
  it('serves a TypeScript config with npx and answers a call', async () => {
    writeFileSync(
      join(project, 'collet.config.ts'),
      `import { defineConfig, tool } from 'collet'
       const echo: unknown = tool({
         id: 'Echo.Say@1.0.0',
         description: 'Says it again.',
         input: { type: 'object', properties: { text: { type: 'string', description: 'What to say.' } }, required: ['text'] },
         output: { type: 'string' },
         run: ({ text }) => text,
       })
       export default defineConfig({ tools: [echo as never], server: { port: 0 } })`,
    )
    server = await startServerProcess('npx', ['collet', 'serve'], { cwd: project })
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: 'Echo.Say', input: { text: 'hello' } } }),
    })
    expect(await response.json()).toMatchObject({ result: { success: true, value: 'hello' } })
    const called = npm('exec', '--', 'collet', 'call', 'Echo.Say', '{"text":"again"}', '--url', server.url)
    expect(JSON.parse(called)).toBe('again')
    expect(server.output()).not.toContain('ExperimentalWarning')
    await server.stop()
  })

  it('finds its threads and processes: a document is read in one, a pack runs in the other', async () => {
    mkdirSync(join(project, 'weather'))
    writeFileSync(join(project, 'weather/index.js'), PACK)
    writeFileSync(join(project, 'weather/pack.json'), PACK_MANIFEST)
    writeFileSync(join(project, 'shop.json'), DOCUMENT)
    const sources = {
      Weather: {
        ...{ type: 'pack', path: 'weather', isolation: 'process', grant: ['clock'] },
        tools: { Wind: { safetyTier: 'read' } },
      },
      Shop: { type: 'openapi', file: 'shop.json' },
    }
    writeFileSync(join(project, 'sources.json'), JSON.stringify({ sources, server: { port: 0 } }))
    const argv = ['node_modules/collet/bin/collet.js', 'serve', '--config', 'sources.json']
    server = await startServerProcess(process.execPath, argv, { cwd: project })
    const { url } = server
    const reply = await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: 'Weather.Wind', input: { place: 'Oslo' } } }),
    })
    expect(await reply.json()).toMatchObject({ result: { success: true, value: 'A breeze in Oslo.' } })
    const listed = await (await fetch(`${url}/tools`)).json()
    expect(JSON.stringify(listed)).toContain('Shop.listOrders')
    await server.stop()
  })

  it('puts the MCP servers of a client behind one address, with two commands', async () => {
    const folder = join(project, 'story')
    mkdirSync(folder)
    await playMcpServersStory(folder, ['npx', 'collet'])
  })

  it('is few files, each with a map that holds the sources it speaks of', () => {
    const dist = join(project, 'node_modules/collet/dist')
    const files = readdirSync(dist, { recursive: true, encoding: 'utf8' })
    const code = files.filter((name) => name.endsWith('.js'))
    expect(code.length).toBeLessThan(120)
    for (const name of files.filter((each) => each.endsWith('.map'))) {
      const { sources, sourcesContent } = readJson(join(dist, name))
      expect(sourcesContent).toHaveLength(sources.length)
      expect(sourcesContent).not.toContain(null)
    }
    const script = `import('collet').then(({ tool }) => tool({ get id() { throw new Error('here') } })).catch((error) => console.log(error.stack))`
    const shown = execFileSync(process.execPath, ['--enable-source-maps', '-e', script], {
      cwd: project,
      encoding: 'utf8',
    })
    expect(shown).toMatch(/src[\\/]core[\\/]tools[\\/]define\.ts:\d+/)
  })

  it('keeps its client free of Node and of packages', () => {
    const dist = join(project, 'node_modules/collet/dist')
    const seen = new Set([join(dist, 'client/index.js')])
    for (const file of seen) {
      const imported = readFileSync(file, 'utf8').matchAll(
        /(?:^import|^export|\bfrom|\bimport\() ?"([^"]+)"/gm,
      )
      for (const [, specifier = ''] of imported) {
        expect(specifier).toMatch(/^\.\.?\//)
        seen.add(resolve(dirname(file), specifier))
      }
    }
    expect(seen.size).toBeGreaterThan(2)
  })

  it('gives its subpaths to importers, with types beside them', () => {
    for (const [path, name] of [
      ['client', 'connect'],
      ['protocols/opentool', 'validate'],
    ]) {
      const script = `import('collet/${path}').then((room) => console.log(typeof room.${name}))`
      expect(execFileSync(process.execPath, ['-e', script], { cwd: project, encoding: 'utf8' })).toBe(
        'function\n',
      )
    }
    for (const types of ['index', 'client/index', 'protocols/opentool/index', 'testing/index']) {
      expect(() => readFileSync(join(project, `node_modules/collet/dist/${types}.d.ts`))).not.toThrow()
    }
  })

  it('carries no sources and no tests, and of the documentation what code and clients refer to', () => {
    expect(readdirSync(join(project, 'node_modules/collet')).sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'bin',
      'dist',
      'docs',
      'node_modules',
      'npm-shrinkwrap.json',
      'package.json',
      'templates',
      'vectors',
    ])
    expect(readdirSync(join(project, 'node_modules/collet/docs')).sort()).toEqual(['errors.md', 'specs'])
    const data = readdirSync(join(project, 'node_modules/collet/docs/specs/data'))
    expect(data.filter((name) => !/\.(?:json|md)$/.test(name))).toEqual([])
  })

  it('brings the versions that were tested, all of them with a digest and none with an address', () => {
    const { packages } = readJson(join(project, 'node_modules/collet/npm-shrinkwrap.json'))
    const { '': own, ...needed }: Record<string, Record<string, unknown>> = packages
    const { packages: locked } = readJson(join(ROOT, 'package-lock.json'))
    expect(own?.dependencies).toEqual(readJson(join(ROOT, 'package.json')).dependencies)
    expect(own).not.toHaveProperty('devDependencies')
    expect(Object.keys(needed).length).toBeGreaterThan(30)
    for (const [path, entry] of Object.entries(needed)) {
      expect(entry).toMatchObject({ version: locked[path].version, integrity: expect.stringMatching(/^sha/) })
      expect(entry).not.toHaveProperty('resolved')
      expect(entry).not.toHaveProperty('dev')
      const installed = join(project, 'node_modules/collet', path, 'package.json')
      if (entry.optional !== true) expect(readJson(installed).version).toBe(entry.version)
    }
    expect(readdirSync(ROOT)).not.toContain('npm-shrinkwrap.json')
  })
})
