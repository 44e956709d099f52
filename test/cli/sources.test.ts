import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64'), PATH: process.env.PATH })

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

  it('asks the server of the config, wherever that listens', async () => {
    const { port } = new URL(collet.url)
    const config = { server: { port: Number(port) }, store: 'sqlite:collet.db' }
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify(config))
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    expect([await io.run('sources', '--json'), io.stderr]).toEqual([0, ''])
  })

  it('imports a service, pins what it says, shows a change, and takes it away', async () => {
    expect(await run('sources')).toMatchObject({ code: 0, stderr: expect.stringContaining('collet import') })
    const imported = await run('import', `${service.url}/openapi.json`, '--key', 'Greet', '--yes')
    expect([imported.code, imported.stderr]).toEqual([0, expect.stringContaining('hello')])
    await expect.poll(listed, { timeout: 3_000 }).toEqual(['Greet.hello@1.0.0 Greets somebody.'])
    expect((await run('sources')).stdout).toMatch(/Greet +openapi +ready +1/)
    const metrics = await (await fetch(`${collet.url}/metrics`)).text()
    expect(metrics).toContain('collet_source_up{source="Greet",type="openapi"} 1')
    expect(metrics).toContain('collet_source_tools{source="Greet",type="openapi"} 1')

    text = 'Greets somebody, and more.'
    expect((await run('sources', 'refresh', 'Greet')).stdout).toContain('1 waiting for a decision')
    expect(await listed()).toEqual(['Greet.hello@1.0.0 Greets somebody.'])
    expect((await run('pins', 'list')).stdout).toContain('Greet')
    const diff = await run('pins', 'diff', 'Greet.hello')
    expect(diff.stdout).toContain('and more')
    expect((await run('pins', 'accept', 'Greet.hello')).code).toBe(0)
    await expect.poll(listed, { timeout: 3_000 }).toEqual(['Greet.hello@1.0.1 Greets somebody, and more.'])

    expect((await run('sources', 'remove', 'Greet')).code).toBe(0)
    expect(await listed()).toEqual([])
    expect((await run('sources', 'remove', 'Greet')).stderr).toContain('no source "Greet"')
  })
})
