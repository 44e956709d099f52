import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text as bodyOf } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { serve } from '#server/create-gateway'
import { CLIENT_NAMES } from '#server/import/clients'
import type { RunningServer } from '#server/start-server'
import demo from '../../examples/demo/collet.config.ts'
import { FakeIo } from '../cli/fake-io.ts'
import { readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const DOCUMENTED_URL = 'http://127.0.0.1:4100'
const DOCUMENTED_MODEL = 'http://127.0.0.1:11434'
const LIMIT_MS = 60_000
const execute = promisify(execFile)

const BLOCKS = readBlocks('docs/clients.md')
const PROGRAMS = BLOCKS.filter(({ language }) => language === 'ts').map(({ text }) => ({
  file: /^\/\/ (\S+)\n/.exec(text)?.[1] ?? '',
  text,
  shown: [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, printed]) => printed),
}))

interface Model {
  readonly url: string
  close(): void
}

/** Imitates two model services: the first answer calls an offered tool, the second repeats its result. */
async function startModel(): Promise<Model> {
  const listening = createServer(async (request, response) => {
    const { messages, tools } = JSON.parse(await bodyOf(request))
    const offered = JSON.stringify(tools).includes('"Calculator_Add"')
    const [, sum] = /"text\W+(\d+)/.exec(JSON.stringify(messages.at(-1))) ?? []
    const sentence = sum === undefined ? null : `2 + 3 is ${sum}.`
    const [id, name] = ['question-1', offered ? 'Calculator_Add' : 'none']
    const input = { a: 2, b: 3 }
    const asked = { id, type: 'function', function: { name, arguments: JSON.stringify(input) } }
    const anthropic = { id: 'm', type: 'message', role: 'assistant', usage: {} }
    const answer =
      request.url === '/v1/messages'
        ? {
            ...anthropic,
            content: [
              sentence === null ? { type: 'tool_use', id, name, input } : { type: 'text', text: sentence },
            ],
          }
        : {
            choices: [
              {
                message: {
                  role: 'assistant',
                  content: sentence,
                  ...(sentence === null ? { tool_calls: [asked] } : {}),
                },
              },
            ],
          }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const address = listening.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return { url: `http://127.0.0.1:${address.port}`, close: () => void listening.close() }
}

describe('the programs of docs/clients.md', () => {
  let folder = ''
  let server: RunningServer | undefined
  let model: Model | undefined
  let printed: readonly (readonly string[])[] = []
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-clients-'))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    server = await serve({ ...demo, store: 'memory:', server: { port: 0 } }, { folder })
    model = await startModel()
    for (const { file, text } of PROGRAMS)
      writeFileSync(
        join(folder, file),
        text.replaceAll(DOCUMENTED_URL, server.url).replaceAll(DOCUMENTED_MODEL, model.url),
      )
    const runner = join(import.meta.dirname, 'run-blocks.mjs')
    const files = PROGRAMS.map(({ file }) => join(folder, file))
    const env = { ...process.env, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'none' }
    const { stdout } = await execute(process.execPath, [runner, ...files], { cwd: folder, env })
    printed = JSON.parse(stdout)
  }, LIMIT_MS)
  afterAll(async () => {
    model?.close()
    await server?.close()
    rmSync(folder, { recursive: true })
  })

  it('are those of every client library', () => {
    expect(PROGRAMS.map(({ file }) => file)).toEqual([
      'ai-sdk.ts',
      'langchain.ts',
      'openai-agents.ts',
      'mcp-sdk.ts',
      'mcp-client.ts',
      'anthropic.ts',
      'plain-loop.ts',
    ])
  })

  it.each(PROGRAMS.map(({ file, shown }, index) => [file, shown, index] as const))(
    '%s calls a tool and prints the shown output',
    (_file, shown, index) => {
      expect(shown.length).toBeGreaterThan(0)
      expect(printed[index]).toEqual(shown)
    },
  )
})

describe('the snippets of docs/clients.md', () => {
  const shown = BLOCKS.filter(({ language }) => /^jsonc?$/.test(language)).map(({ text }) => JSON.parse(text))
  const [claude, ...byAddress] = shown

  /** What `collet connect` prints in a project. */
  async function connect(client: string): Promise<string> {
    const project = mkdtempSync(join(tmpdir(), 'collet-connect-'))
    try {
      mkdirSync(join(project, 'home'))
      writeFileSync(join(project, 'collet.config.json'), '{}')
      const environment = readEnvironment({ HOME: join(project, 'home'), PATH: process.env.PATH ?? '' })
      const io = new FakeIo(REAL_SERVICES, { workingFolder: project, environment })
      expect([await io.run('connect', client), io.stdout === '']).toEqual([0, false])
      return io.stdout
    } finally {
      rmSync(project, { recursive: true })
    }
  }

  const inJson = 'claude-code cursor vscode windsurf gemini copilot zed cline opencode'.split(' ')
  it.each(inJson.map((client, index) => [client, index] as const))(
    '%s is what collet connect prints',
    async (client, index) => {
      expect(JSON.parse(await connect(client))).toEqual(byAddress[index])
    },
  )

  it.each([
    ['codex', 'toml'],
    ['goose', 'yaml'],
  ])('%s is what collet connect prints', async (client, language) => {
    expect(await connect(client)).toBe(BLOCKS.find((block) => block.language === language)?.text)
  })

  it('has a section for every client', () => {
    const page = readFileSync(join(ROOT, 'docs/clients.md'), 'utf8')
    for (const name of CLIENT_NAMES) expect(page).toContain(`\`npx collet connect ${name}\``)
  })

  it('Claude Desktop starts the same command', async () => {
    const printed = JSON.parse(await connect('claude'))
    const [documented, written] = [claude.mcpServers.collet.args, printed.mcpServers.collet.args]
    expect(documented.slice(1, 3)).toEqual(['mcp', '--config'])
    expect(written.slice(-3, -1)).toEqual(['mcp', '--config'])
  })

  it('the Inspector is started as collet connect prints', async () => {
    const command = BLOCKS.find(({ text }) => text.includes('--cli'))?.text.trim()
    expect(await connect('inspector')).toContain(command)
  })
})
