import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet, startServerProcess } from '../e2e/server-process.ts'
import { readBlocks } from './markdown-blocks.ts'
import { matchesSample } from './matches-sample.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const DOCUMENTED_URL = 'http://127.0.0.1:4100'
const DOCUMENTED_PORT = '9627'
const NODE_FLAGS = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']

const blocks = readBlocks('docs/protocols/opentool.md')
const pairs = blocks.map((block, index) => ({ block, next: blocks[index + 1] }))
const isConfig = (text: string | undefined) => text?.includes('defineConfig(') === true
const configs = blocks.flatMap((block, index) => {
  const [ask, answer] = blocks.slice(index + 1)
  return isConfig(block.text) && ask !== undefined && answer !== undefined ? [{ block, ask, answer }] : []
})
const shell = pairs.filter(
  ({ block }) => block.language === 'sh' && configs.every(({ ask }) => ask !== block),
)
const starts = shell.filter(({ block }) => block.text.includes('opentool start'))
const runs = shell.filter((pair) => !starts.includes(pair))
const clients = pairs.filter(
  ({ block, next }) =>
    block.language === 'ts' && block.text.includes("'collet/client'") && next?.language === 'text',
)

let folder: string
let server: ServerProcess
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import demo from ${JSON.stringify(join(ROOT, 'examples/demo/collet.config.ts'))}
     export default { ...demo, server: { port: 0 }, store: 'memory:' }`,
  )
  env = {
    ...process.env,
    PATH: `${join(import.meta.dirname, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
  }
  server = await startCollet(['serve'], { cwd: folder })
})

afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

describe('docs/protocols/opentool.md', () => {
  it('has examples of all parts', () => {
    expect([runs.length, starts.length, clients.length, configs.length]).toEqual([5, 1, 2, 1])
  })

  it.each(runs.map(({ block, next }) => [block.line, block, next] as const))(
    'line %i runs in a shell and gets the shown answer',
    async (_line, block, next) => {
      const { stdout } = await run('sh', ['-ec', block.text.replaceAll(DOCUMENTED_URL, server.url)], {
        cwd: folder,
        env,
      })
      if (next?.language !== 'json') return
      const answer: unknown = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
      const shown: unknown = JSON.parse(next.text)
      if (!matchesSample(shown, answer)) expect(answer).toEqual(shown)
    },
  )

  it.each(clients.map(({ block, next }) => [block.line, block, next?.text] as const))(
    'line %i runs as a program and prints the shown output',
    async (line, block, shown) => {
      const entry = pathToFileURL(join(ROOT, 'src/client/index.ts')).href
      const file = join(folder, `line-${line}.ts`)
      writeFileSync(file, block.text.replace('collet/client', entry).replaceAll(DOCUMENTED_URL, server.url))
      const { stdout } = await run(process.execPath, [...NODE_FLAGS, file], { cwd: folder })
      expect(stdout).toBe(shown)
    },
  )

  it.each(configs.map(({ block, ...rest }) => [block.line, block, rest] as const))(
    'OTS-03, OTS-32, OTS-50: line %i is a config with the described effect',
    async (_line, block, { ask, answer }) => {
      const entry = pathToFileURL(join(ROOT, 'src/index.ts')).href
      const file = join(folder, 'configured.ts')
      writeFileSync(file, block.text.replace("'collet'", `'${entry}'`))
      const flags = ['--config', file, '--port', '0', '--store', 'memory:']
      const configured = await startCollet(['serve', ...flags], { cwd: folder })
      try {
        const { stdout } = await run('sh', ['-ec', ask.text.replaceAll(DOCUMENTED_URL, configured.url)], {
          env,
        })
        expect(JSON.parse(stdout)).toEqual(JSON.parse(answer.text.replaceAll(DOCUMENTED_URL, configured.url)))
        const version = await fetch(`${configured.url}/opentool/version`)
        expect(await version.json()).toEqual({ version: '2.1.0' })
        const call = (path: string, b: number) =>
          fetch(`${configured.url}/opentool/${path}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ jsonrpc: '2.0', method: 'add', params: { a: 1, b }, id: 'once' }),
          })
        const streamed = await call('streamCall', 2)
        expect([streamed.status, await streamed.text()]).toEqual([200, expect.stringContaining('event:done')])
        expect(await (await call('call', 3)).json()).toMatchObject({
          error: { code: 400, data: { code: 'key_conflict' } },
        })
      } finally {
        await configured.stop()
      }
    },
  )

  it('OTS-31, OTS-76: starts as shown, on loopback, with keys from the environment, and ends cleanly at a signal', async () => {
    const port = await freePort()
    const script = (starts[0]?.block.text ?? '').replaceAll(DOCUMENTED_PORT, String(port))
    const started = await startServerProcess(
      'sh',
      ['-ec', script.replace('collet opentool', 'exec collet opentool')],
      { cwd: folder, env },
    )
    try {
      expect(started.url).toBe(`http://127.0.0.1:${port}`)
      await expect.poll(() => started.output()).toContain(`${started.url}/opentool/call`)
      expect((await fetch(`${started.url}/opentool/version`)).status).toBe(401)
    } finally {
      expect(await started.stop()).toBe(0)
    }
  })
})

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  if (address === null || typeof address === 'string') throw new Error('the probe has no port')
  return address.port
}
