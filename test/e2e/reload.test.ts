import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCollet, type ServerProcess, startCollet } from './server-process.ts'

const FIRST = 'k'.repeat(43)
const SECOND = 's'.repeat(43)

let folder: string
let server: ServerProcess

/** A config in code, so that Node's module cache is involved. */
function configure({ keys, more = '' }: { readonly keys: readonly string[]; readonly more?: string }): void {
  const entries = keys.map((key, index) => `{ id: 'agent${index}', key: '${key}' }`).join(', ')
  const index = join(import.meta.dirname, '../../src/index.ts')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { defineConfig, tool } from '${index}'
const add = tool({ id: 'Math.Add@1.0.0', description: 'Adds.', policy: { safetyTier: 'pure' },
  input: { type: 'object', properties: { a: { type: 'number', description: 'A.' } }, required: ['a'] },
  output: { type: 'number' }, run: ({ a }) => a + 1 })
export default defineConfig({ tools: [add], store: 'memory:', auth: { apiKeys: [${entries}] }, ${more} })
`,
  )
}

async function call(key: string): Promise<number> {
  const response = await fetch(`${server.url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'oxp-api-key': key },
    body: JSON.stringify({ request: { tool_id: 'Math.Add', input: { a: 1 } } }),
  })
  await response.arrayBuffer()
  return response.status
}

/** Sends the signal and waits for this output. */
async function hangUp(words: string): Promise<void> {
  const before = server.output().length
  process.kill(server.pid, 'SIGHUP')
  await expect.poll(() => server.output().slice(before), { timeout: 10_000 }).toContain(words)
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-reload-'))
  configure({ keys: [FIRST] })
  server = await startCollet(['serve', '--port', '0'], { cwd: folder, env: { NO_COLOR: '1' } })
})
afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

describe('SIGHUP', () => {
  it('applies new keys while calls run, and no call fails', async () => {
    expect([await call(FIRST), await call(SECOND)]).toEqual([200, 401])
    const statuses: number[] = []
    let isLoading = true
    const load = Array.from({ length: 4 }, async () => {
      while (isLoading) statuses.push(await call(FIRST))
    })
    configure({ keys: [FIRST, SECOND] })
    await hangUp('changed auth.apiKeys')
    isLoading = false
    await Promise.all(load)
    expect(statuses.length).toBeGreaterThan(4)
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(await call(SECOND)).toBe(200)
  })

  it('refuses a bad config with its line and reason, and keeps the previous config', async () => {
    configure({ keys: [FIRST], more: 'limits: { perPrincipal: { rate: 0 } }' })
    await hangUp('the previous config stays in force')
    expect(server.output()).toMatch(/collet\.config\.ts: limits\.perPrincipal/)
    writeFileSync(join(folder, 'collet.config.ts'), 'export default {\n  auth: }\n')
    await hangUp('the previous config stays in force')
    expect(server.output()).toMatch(/collet\.config\.ts:2/)
    expect([await call(FIRST), await call(SECOND)]).toEqual([200, 200])
  })

  it('lists changes that need a restart, and applies the rest', async () => {
    configure({ keys: [FIRST], more: "server: { bodyLimitBytes: 2048 }, log: { level: 'debug' }" })
    await hangUp('Needs a restart: server.bodyLimitBytes.')
    expect(server.output()).toContain('changed auth.apiKeys, log.level.')
    expect([await call(FIRST), await call(SECOND)]).toEqual([200, 401])
    await expect.poll(() => server.output(), { timeout: 5_000 }).toContain('"level":"debug"')
  })
})

describe('collet reload', () => {
  it('reports the changes, and the problems of a refused config', async () => {
    const reload = () => runCollet(['reload', '--url', server.url], { cwd: folder })
    configure({ keys: [FIRST, SECOND] })
    const good = await reload()
    expect([good.code, good.stderr]).toEqual([0, expect.stringContaining('changed auth.apiKeys, log.level.')])
    expect(good.stderr).toContain('Acting as operator (start token)')
    expect(await call(SECOND)).toBe(200)
    configure({ keys: [FIRST], more: 'limits: { perPrincipal: { rate: 0 } }' })
    const before = server.output().length
    const bad = await reload()
    // The command reads the same file to find the server, and stops at it.
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringMatching(/limits\.perPrincipal/)])
    expect(await call(SECOND)).toBe(200)
    expect(server.output().slice(before)).not.toContain('changed')
  })
})
