import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { Secret } from '#kernel/base/secret'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleTool } from '../contracts/samples.ts'
import { startUpstream } from '../sources/upstream.ts'
import { chunks, FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })
let folder: string

const openStore = () => openSqliteStore({ path: join(folder, 'collet.db'), masterKey })

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-import-'))
  const store = openStore()
  await store.probe()
  await store.close()
})

afterEach(() => rmSync(folder, { recursive: true }))

async function run(argv: readonly string[], changes: ConstructorParameters<typeof FakeIo>[1] = {}) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, ...changes })
  const code = await io.run('import', ...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

async function stored() {
  const store = openStore()
  const list = store.sources.list()
  await store.close()
  return list
}

const STORE = ['--store', 'sqlite:collet.db']

describe('collet import', () => {
  it('lists the tools that it finds and adds the source to the store', async () => {
    const { url } = await startUpstream({
      tools: [sampleTool('Math.Add@1.0.0', () => 1, { description: 'Adds.\nTwo numbers.' })],
    })
    const added = await run([url, '--key', 'Maths', '--yes', ...STORE])
    expect(added.stderr).toContain('Found an OTC server (otc-1.0), 1 tool, as "Maths":\n  Math.Add  Adds.\n')
    expect(added.stderr).toContain('Maths is added')
    expect([added.code, added.stdout]).toEqual([0, ''])
    expect(await stored()).toMatchObject([
      { key: 'Maths', options: { type: 'otc', url }, addedBy: 'cli:tester' },
    ])
    const again = await run([`${url}/opentool`, '--key', 'Maths', '--yes', ...STORE])
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('so this one becomes "Maths2"')])
    const same = await run([url, '--yes', ...STORE])
    expect([same.code, same.stderr]).toEqual([0, expect.stringContaining('imported already, as "Maths"')])
    expect((await stored()).map(({ key }) => key)).toEqual(['Maths', 'Maths2'])
    const replaced = await run([
      `${url}/opentool`,
      '--key',
      'Maths',
      '--yes',
      '--replace',
      '--json',
      ...STORE,
    ])
    expect(JSON.parse(replaced.stdout)).toMatchObject({ key: 'Maths', type: 'opentool', tools: ['Math_Add'] })
    expect((await stored())[0]?.options).toEqual({ type: 'opentool', url: `${url}/opentool` })
  })

  it('OTS-04: imports a document for its server, which may be local and need not describe itself', async () => {
    const document = join(folder, 'opentool.json')
    const described = {
      opentool: '1.1.0',
      info: { title: 'Door', version: '1.0.0' },
      server: { url: 'http://127.0.0.1:9' },
      functions: [{ name: 'ring', description: 'Rings.', parameters: [] }],
    }
    writeFileSync(document, JSON.stringify(described))
    const added = await run([document, '--yes', ...STORE])
    expect([added.code, added.stderr]).toEqual([0, expect.stringContaining('ring  Rings.')])
    expect((await stored())[0]).toMatchObject({
      key: 'Door',
      options: { type: 'opentool', url: 'http://127.0.0.1:9/opentool', document },
    })
  })

  it('asks first, and adds nothing without consent', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 1)] })
    const nobody = await run([url, ...STORE])
    expect([nobody.code, await stored()]).toEqual([2, []])
    expect(nobody.stderr).toContain('Nothing was added. Use --yes')
    const answer = (text: string) => ({ stdin: Object.assign(chunks(text), { isTTY: true }) })
    expect((await run([url, ...STORE], answer('n\n'))).code).toBe(2)
    const yes = await run([url, ...STORE], answer('y\n'))
    expect(yes.stderr).toContain('Add it as "Imported"? [y/N]')
    expect((await stored()).map(({ key }) => key)).toEqual(['Imported'])
  })

  it('prints the entry for the config, without the key', async () => {
    const key = { id: 'us', key: new Secret('k-canary'), tenant: 'default', scopes: [] }
    const { url } = await startUpstream({ auth: { apiKeys: [key], jwt: undefined } })
    const printed = await run([url, '--key', 'Up', '--print', '--api-key'], { stdin: chunks('k-canary\n') })
    expect(printed).toMatchObject({
      code: 0,
      stdout: `"sources": {\n  "Up": {\n    "type": "otc",\n    "url": "${url}",\n    "apiKey": "<the key>"\n  }\n}\n`,
    })
    const unasked = await run([url, '--api-key', ...STORE], { stdin: chunks('k-canary\n') })
    expect(unasked.stderr).toContain('add --yes or --print')
    const added = await run([url, '--api-key', '--yes', ...STORE], { stdin: chunks('k-canary\n') })
    expect(added.code).toBe(0)
    expect((await stored())[0]?.options).toMatchObject({ apiKey: 'k-canary' })
    expect(added.stderr + added.stdout).not.toContain('canary')
  })

  it('reports what the address returned if it finds nothing', async () => {
    const nothing = await run(['http://127.0.0.1:9', '--yes', ...STORE])
    expect(nothing.code).toBe(3)
    expect(nothing.stderr).toContain('127.0.0.1:9 cannot be reached. Is it running')
    expect(nothing.stderr).not.toContain('cannot be imported')
    const absent = await run(['./openapi.yaml', '--yes', ...STORE])
    expect(absent.stderr).toContain('There is no file')
    const password = await run(['https://a:b@x.example', '--yes', ...STORE])
    expect(password.stderr).toContain('Leave the password out of the URL')
    const plain = await run(['http://x.example', '--api-key', '--yes', ...STORE])
    expect(plain.stderr).toContain('A key is not sent over plain http')
    const two = await run(['http://x.example', 'http://y.example', '--yes', ...STORE])
    expect(two.stderr).toContain('Import one address at a time')
    const wrongKey = await run(['x', '--key', 'a b', '--yes', ...STORE])
    expect(wrongKey.stderr).toContain('--key expects')
  })

  it('imports the chosen part of an OpenAPI document, and warns about more tools than a model can choose from', async () => {
    const operation = (tag: string) => ({ tags: [tag], responses: { 200: { description: 'ok' } } })
    const many = Array.from({ length: 26 }, (_, index) => [
      `/p${index}`,
      { get: operation(index < 3 ? 'few' : 'many'), post: operation('many') },
    ])
    const file = join(folder, 'openapi.json')
    const document = {
      openapi: '3.1.0',
      info: { title: 'Shop', version: '1' },
      servers: [{ url: 'https://x.example' }],
    }
    writeFileSync(file, JSON.stringify({ ...document, paths: Object.fromEntries(many) }))
    const seen = async (...argv: string[]) => {
      const { stdout } = await run([file, '--yes', '--replace', '--json', ...argv, ...STORE])
      const { tools, warnings } = JSON.parse(stdout)
      return [tools.length, warnings.join().includes('Narrow them with --include, --tag')]
    }
    expect(await seen()).toEqual([52, true])
    expect(await seen('--tag', 'few')).toEqual([3, false])
    expect(await seen('--method', 'POST')).toEqual([26, false])
    expect(await seen('--read-only', '--tag', 'many')).toEqual([23, false])
    expect((await stored())[0]?.options).toMatchObject({ methods: ['get', 'head'], tags: ['many'] })
    expect((await run([file, '--trust', 'annotations', ...STORE])).stderr).toContain('--trust is for mcp')
    expect((await run([file, '--method', 'fetch', ...STORE])).stderr).toContain('--method expects one of get')
    expect((await run([file, '--env', 'A=b', ...STORE])).stderr).toContain('--env is for a program')
  })

  it('refuses a key of the config, which takes precedence', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 1)] })
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ store: 'sqlite:collet.db' }))
    expect((await run([url, '--key', 'Maths', '--yes'])).code).toBe(0)
  })

  it('rule 29: a server accepts an import only with a credential', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 1)] })
    const refused = await run([url, '--yes', '--url', url, ...STORE])
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('needs a credential')
    const requests: { url: string; authorization: string | null; body: unknown }[] = []
    const send: typeof fetch = async (input, init) => {
      const authorization = new Headers(init?.headers).get('authorization')
      requests.push({ url: String(input), authorization, body: JSON.parse(String(init?.body)) })
      return new Response('{"source":null,"found":[[]],"taken":[]}', { status: 201 })
    }
    const io = new FakeIo({ ...REAL_SERVICES, fetch: send }, { workingFolder: folder, environment })
    const server = 'http://127.0.0.1:9'
    const argv = ['import', url, '--key', 'Maths', '--yes', '--url', server, '--credential', 'mine', ...STORE]
    expect(await io.run(...argv)).toBe(0)
    expect(requests).toEqual([
      {
        url: `${server}/admin/sources/find`,
        authorization: 'Bearer mine',
        body: { options: [{ type: 'otc', url }] },
      },
      {
        url: `${server}/admin/sources`,
        authorization: 'Bearer mine',
        body: { key: 'Maths', options: { type: 'otc', url }, replace: false },
      },
    ])
  })
})
