import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { type RunningServer, startServer } from '#server/start-server'
import { ask } from '../conformance/mcp-talk.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64'), PATH: process.env.PATH })

const SMALL_MCP_SERVER = new URL('small-mcp-server.mjs', import.meta.url).pathname
const ANNOTATIONS = z.object({
  readOnlyHint: z.boolean(),
  destructiveHint: z.boolean().optional(),
  openWorldHint: z.boolean(),
})
const LISTING = z.object({
  result: z.object({
    tools: z.array(z.object({ name: z.string(), annotations: ANNOTATIONS })),
  }),
})

/** A service with a description whose text the test decides. */
function describedService(text: () => string): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer((request, response) => {
    const body =
      request.url === '/openapi.json'
        ? {
            openapi: '3.1.0',
            info: { title: 'Greetings', version: '1' },
            paths: {
              '/hello/{name}': {
                get: {
                  operationId: 'hello',
                  summary: text(),
                  parameters: [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }],
                  responses: {
                    200: {
                      description: 'ok',
                      content: { 'application/json': { schema: { type: 'string' } } },
                    },
                  },
                },
              },
            },
          }
        : `hello ${request.url?.split('/').at(-1)}`
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = address === null || typeof address === 'string' ? 0 : address.port
      resolve({ server, url: `http://127.0.0.1:${port}` })
    })
  })
}

/** Every option of `sources set` that names a tool, with a wrong name. */
const SLIPS = [
  ['--approval', 'wirte_b=always'],
  ['--tier', 'wirte_b=read'],
  ['--call-timeout', 'wirte_b=5'],
  ['--include', 'wirte_b'],
  ['--exclude', 'wirte_b'],
] as const

describe('collet import, sources and pins, on a server that runs', () => {
  let folder: string
  let collet: RunningServer
  let text = 'Greets somebody.'
  let service: Awaited<ReturnType<typeof describedService>>

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-sources-'))
    writeFileSync(join(folder, 'collet.config.json'), '{}')
    text = 'Greets somebody.'
    service = await describedService(() => text)
    collet = await startServer(
      testSettings({ dataFolder: folder, masterKey, store: `sqlite:${join(folder, 'collet.db')}` }),
      { graceMs: 0 },
    )
  })

  afterEach(async () => {
    await collet.close()
    service.server.closeAllConnections()
    service.server.close()
    rmSync(folder, { recursive: true })
  })

  async function run(...argv: string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    const code = await io.run(...argv, '--url', collet.url, '--store', 'sqlite:collet.db')
    return { code, stdout: io.stdout, stderr: io.stderr }
  }

  const listed = async () => {
    const client = await REAL_SERVICES.connect(collet.url, { apiKey: undefined })
    return (await client.list()).map(({ id, description }) => `${id} ${description}`)
  }

  const annotated = async <Shown>(show: (annotations: z.infer<typeof ANNOTATIONS>) => Shown) => {
    const response = await ask(collet.url, { method: 'tools/list' })
    const { tools } = LISTING.parse(await response.json()).result
    return Object.fromEntries(tools.map(({ name, annotations }) => [name, show(annotations)]))
  }

  /** Whether each tool only reads, as MCP clients see it. */
  const hints = () => annotated(({ readOnlyHint }) => readOnlyHint)

  it('shows MCP clients that a trusted tool only adds to its own data, unless the operator overrides it', async () => {
    const dangers = () =>
      annotated(({ destructiveHint, openWorldHint }) => ({ destructiveHint, openWorldHint }))
    const shown = (destructiveHint: boolean, openWorldHint: boolean) => ({
      Files_add_a: { destructiveHint, openWorldHint },
      Files_write_b: { destructiveHint: true, openWorldHint: true },
    })
    const set = (...argv: string[]) => run('sources', 'set', 'Files', ...argv)
    const program = [process.execPath, SMALL_MCP_SERVER, 'files', 'add_a', 'write_b']
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    await io.run('import', '--yes', '--url', collet.url, '--store', 'sqlite:collet.db', '--', ...program)
    await expect.poll(dangers, { timeout: 3_000 }).toEqual(shown(true, true))
    expect((await set('--trust', 'annotations')).code).toBe(0)
    await expect.poll(dangers, { timeout: 3_000 }).toEqual(shown(false, false))
    expect((await run('pins', 'list')).stdout).not.toContain('change')
    expect((await set('--tier', 'write')).code).toBe(0)
    await expect.poll(dangers, { timeout: 3_000 }).toEqual(shown(true, false))
    expect((await set('--trust', 'nothing')).code).toBe(0)
    await expect.poll(dangers, { timeout: 3_000 }).toEqual(shown(true, true))
  })

  it('leaves out one MCP tool with NUL in its name, and serves the others', async () => {
    const argv = JSON.stringify(['node', 'server', 'files', 'read_a', 'read\0b', 'read_c'])
    const program = `process.argv = ${argv}; await import(${JSON.stringify(SMALL_MCP_SERVER)})`
    const command = [process.execPath, '--input-type=module', '-e', program]
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    const asked = ['--key', 'Files', '--url', collet.url, '--store', 'sqlite:collet.db']
    expect([await io.run('import', '--yes', ...asked, '--', ...command), io.stderr]).toEqual([
      0,
      expect.any(String),
    ])
    await expect.poll(hints, { timeout: 3_000 }).toEqual({ Files_read_a: false, Files_read_c: false })
    expect((await run('sources')).stdout).toMatch(/Files +mcp +ready +2/)
    expect((await run('sources', '--json')).stdout).toContain('a tool without a usable name is left out')
  })

  it('asks the server of the config at its configured address', async () => {
    const { port } = new URL(collet.url)
    const config = { server: { port: Number(port) }, store: 'sqlite:collet.db' }
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify(config))
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    expect([await io.run('sources', '--json'), io.stderr]).toEqual([0, ''])
  })

  it('imports a service, pins its definitions, shows a change, and removes the service', async () => {
    expect(await run('sources')).toMatchObject({ code: 0, stderr: expect.stringContaining('collet import') })
    const imported = await run('import', `${service.url}/openapi.json`, '--key', 'Greet', '--yes')
    expect([imported.code, imported.stderr]).toEqual([0, expect.stringContaining('hello')])
    await expect.poll(listed, { timeout: 3_000 }).toEqual(['Greet.hello@1.0.0 Greets somebody.'])
    expect((await run('sources')).stdout).toMatch(/Greet +openapi +ready +1/)
    const metrics = await (await fetch(`${collet.url}/metrics`)).text()
    expect(metrics).toContain('collet_source_up{source="Greet",type="openapi"} 1')
    expect(metrics).toContain('collet_source_tools{source="Greet",type="openapi"} 1')

    const checked = await run('sources', 'check', 'Gre')
    expect([checked.code, checked.stdout]).toEqual([
      0,
      expect.stringMatching(/handshake +done.*OpenAPI 3\.1\.0/),
    ])
    expect(checked.stdout).toContain('Next step: Nothing')

    text = 'Greets somebody, and more.'
    expect((await run('sources', 'refresh', 'Gre')).stdout).toContain('1 waiting for a decision')
    expect(await listed()).toEqual(['Greet.hello@1.0.0 Greets somebody.'])
    expect((await run('pins', 'list')).stdout).toContain('Greet')
    const diff = await run('pins', 'diff', 'Greet.hello')
    expect(diff.stdout).toContain('and more')
    expect((await run('pins', 'accept', 'Greet.hello')).code).toBe(0)
    await expect.poll(listed, { timeout: 3_000 }).toEqual(['Greet.hello@1.0.1 Greets somebody, and more.'])

    service.server.closeAllConnections()
    await new Promise((resolve) => service.server.close(resolve))
    const down = await run('sources', 'check', 'Greet')
    expect([down.code, down.stdout]).toEqual([1, expect.stringMatching(/connect +failed/)])
    expect(down.stdout).toMatch(/list +not reached/)

    expect((await run('sources', 'remove', 'Greet')).code).toBe(0)
    expect(await listed()).toEqual([])
    expect((await run('sources', 'remove', 'Greet')).stderr).toContain('no source "Greet"')
  })

  it('trusts an MCP server only on request, then at once, and refuses a change that names none of its tools', async () => {
    const program = [process.execPath, SMALL_MCP_SERVER, 'Files', 'read_a', 'write_b']
    const asked = ['--url', collet.url, '--store', 'sqlite:collet.db']
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    expect([await io.run('import', '--yes', ...asked, '--', ...program), io.stderr]).toEqual([
      0,
      expect.stringContaining('1 of 2 tools are marked read-only.'),
    ])
    await expect.poll(hints, { timeout: 3_000 }).toEqual({ Files_read_a: false, Files_write_b: false })
    expect((await run('sources', 'set', 'Fi', '--trust', 'annotations')).code).toBe(0)
    await expect.poll(hints, { timeout: 3_000 }).toEqual({ Files_read_a: true, Files_write_b: false })
    expect((await run('pins', 'list')).stdout).not.toContain('change')
    const slower = await run('sources', 'set', 'Files', '--call-timeout', '300', '--call-timeout', 'read_a=5')
    expect(slower.code).toBe(0)
    const timeOf = async (tool: string) => {
      const url = `${collet.url}/admin/tools/${tool}`
      return JSON.parse(await (await fetch(url)).text()).tool.policy.timeout_ms
    }
    await expect
      .poll(async () => [await timeOf('Files.read_a'), await timeOf('Files.write_b')], { timeout: 3_000 })
      .toEqual([5_000, 300_000])

    for (const [option, value] of SLIPS) {
      const inStore = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
      const code = await inStore.run('sources', 'set', 'Files', option, value, '--store', 'sqlite:collet.db')
      for (const mistake of [await run('sources', 'set', 'Files', option, value), { ...inStore, code }])
        expect([mistake.code, mistake.stderr], option).toEqual([
          2,
          expect.stringContaining(
            '✗ Files has no tool "wirte_b". Did you mean "write_b"? Nothing was changed.',
          ),
        ])
    }
    expect(await hints()).toEqual({ Files_read_a: true, Files_write_b: false })
    expect((await run('sources', 'set', 'Files', '--approval', 'write_b=always')).code).toBe(0)
    const narrowed = await run('sources', 'set', 'Files', '--include', 'read_*', '--tier', 'write')
    expect([narrowed.code, narrowed.stderr]).toEqual([0, expect.stringContaining('Files is changed.')])
    await expect.poll(hints, { timeout: 3_000 }).toEqual({ Files_read_a: false })
    expect((await run('sources', 'set', 'Fils', '--trust', 'nothing')).stderr).toContain(
      'Did you mean "Files"?',
    )
    expect((await run('sources', 'set', 'Files')).stderr).toContain('Name what to change')
    expect((await run('sources', 'set', 'Files', '--tier', 'exec')).stderr).toContain('--tier expects')
  })
})
