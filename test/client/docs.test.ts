import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { format } from 'node:util'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { CLIENT_DIALECTS } from '#protocols/otc/codec-client'
import { FAILURE_CLASSES } from '#protocols/otc/codec-client-reply'
import { startServer } from '#server/start-server'
import { gmailTools } from '../../examples/demo/services/gmail.ts'
import { replyJson, startLocalService } from '../../examples/demo/services/local-service.ts'
import * as calculator from '../../examples/demo/tools/calculator.ts'
import * as doorbell from '../../examples/demo/tools/doorbell.ts'
import * as notebook from '../../examples/demo/tools/notebook.ts'
import { egressTo, testSettings } from '../test-settings.ts'

const DOCUMENTED_URL = 'http://127.0.0.1:4100'
const BLOCK = /```ts\n(.*?)```/gs
const PRINTS = /console\.log\(.*\) \/\/ → (.*)$/gm

const guide = await readFile('docs/client.md', 'utf8')
const blocks = [...guide.matchAll(BLOCK)].map((match) => match[1] ?? '')

/** The demo toolkit with a mailbox of one mail, and the secret of the document when an example signs with it. */
async function startDemo(source: string) {
  const gmail = await startLocalService(({ path }, response) =>
    path.endsWith('/messages')
      ? replyJson(response, 200, { messages: [{ id: 'm1' }] })
      : replyJson(response, 200, MAIL),
  )
  const secret = /jwt: \{ secret: '([^']+)'/.exec(source)?.[1]
  const definitions = [
    ...Object.values(calculator),
    ...Object.values(doorbell),
    ...Object.values(notebook),
    ...gmailTools({ baseUrl: gmail.url }),
  ]
  const settings = testSettings({
    tools: requireTools(definitions),
    egress: egressTo(new URL(gmail.url).host),
    auth: {
      apiKeys: [],
      jwt:
        secret === undefined
          ? undefined
          : { secret: new Secret(secret), audiences: [], maxLifetimeSeconds: 900, tenant: 'default' },
    },
  })
  const server = await startServer(settings, { graceMs: 0 })
  return {
    url: server.url,
    async [Symbol.asyncDispose]() {
      await server.close()
      await gmail.close()
      await rm(settings.dataFolder, { recursive: true })
    },
  }
}

const MAIL = {
  id: 'm1',
  snippet: 'How are you?',
  payload: { headers: [{ name: 'Subject', value: 'Hello' }] },
}

describe('docs/client.md', () => {
  afterEach(() => vi.restoreAllMocks())

  it('names every failure class and dialect', () => {
    const missing = [
      ...FAILURE_CLASSES.map((name) => `\`${name}\``),
      ...CLIENT_DIALECTS.map((name) => `'${name}'`),
    ]
    expect(missing.filter((name) => !guide.includes(name))).toEqual([])
  })

  it('has examples', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(4)
  })

  it.each(blocks.map((source, index) => [index + 1, source] as const))(
    'example %i runs as shown',
    async (_place, source) => {
      await using server = await startDemo(source)
      const folder = await mkdtemp(join(tmpdir(), 'collet-docs-'))
      try {
        const printed: string[] = []
        vi.spyOn(console, 'log').mockImplementation((...values) => void printed.push(format(...values)))
        const file = join(folder, 'example.ts')
        const entry = (path: string) => `'${pathToFileURL(join(process.cwd(), 'src', path)).href}'`
        const runnable = source
          .replace("'collet/client'", entry('client/index.ts'))
          .replace("'collet'", entry('index.ts'))
        await writeFile(file, runnable.replaceAll(DOCUMENTED_URL, server.url))
        await import(pathToFileURL(file).href)
        expect(printed).toEqual([...source.matchAll(PRINTS)].map((match) => match[1]))
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )
})
