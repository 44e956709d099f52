import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findConfinement } from '#sources/common/process'
import { type ServerProcess, startCollet } from './server-process.ts'

const LIMIT_MS = 90_000
const { bwrap } = await findConfinement(process.env.PATH ?? '')
const SANDBOXES = bwrap === undefined ? (['none'] as const) : (['none', 'required'] as const)

describe.each(SANDBOXES)('a hostile pack in a separate process, sandbox %s', (sandbox) => {
  let folder: string
  let server: ServerProcess

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-hostile-'))
    mkdirSync(join(folder, 'evil'))
    copyFileSync(join(import.meta.dirname, 'hostile-pack.js'), join(folder, 'evil/index.mjs'))
    const source = { type: 'pack', path: 'evil', isolation: 'process', sandbox, grant: [] }
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `export default { sources: { Evil: ${JSON.stringify(source)} }, server: { port: 0 }, limits: { total: { bodyBytes: 9000000 } } }`,
    )
    // If the debugger opens after all, it must not take a port that other tests use.
    server = await startCollet(['serve'], { cwd: folder, env: { NODE_OPTIONS: '--inspect-port=0' } })
  }, LIMIT_MS)

  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
    rmSync(join(tmpdir(), 'collet-hostile.db'), { force: true })
  })

  async function call(name: string, input: object = {}) {
    const body = JSON.stringify({
      $schema: 'urn:oxp:1.0',
      request: { tool_id: `Evil.${name}`, call_id: crypto.randomUUID(), input },
    })
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${server.url}/tools/call`, { method: 'POST', headers, body })
    const reply: { result: { success: boolean; value?: unknown; error: { message: string } } } = JSON.parse(
      await answer.text(),
    )
    return reply.result
  }

  /** A process that was killed is started again after a moment. */
  const greets = () =>
    expect.poll(async () => (await call('Hello')).value, { timeout: 40_000, interval: 100 }).toBe('hello')

  it('cannot signal the server, raise its limits or write files', {
    timeout: LIMIT_MS,
  }, async () => {
    await greets()
    expect((await call('Signal')).value).toEqual({ atLoad: [], now: [] })
    // A signal proves nothing: other programs of this user may send it.
    process.kill(server.pid, 'SIGUSR1')
    await greets()
    expect(server.output()).not.toContain('Debugger listening')
  })

  it('OWP-37: is rated by its capabilities: only a sandbox keeps it from the network', {
    timeout: LIMIT_MS,
  }, async () => {
    await greets()
    const catalog: { egress: string }[] = JSON.parse(await (await fetch(`${server.url}/v1/tools`)).text())
    const egress = sandbox === 'required' ? 'safe-fetch' : 'host-owned'
    expect(new Set(catalog.map((tool) => tool.egress))).toEqual(new Set([egress]))
    const reached = await call('Reach', { text: `${server.url}/health` })
    expect(reached.success).toBe(sandbox === 'none')
  })

  it('ends without affecting the server, whatever it sends', { timeout: LIMIT_MS }, async () => {
    for (const [name, text] of [
      ['Say', 'null\n'],
      ['Say', '{"type":"log","id":1,"level":"nope","fields":{},"message":"x"}\n'],
      ['SayMuch', ''],
    ] as const) {
      await greets()
      const { success, error } = await call(name, { text })
      expect(success).toBe(false)
      expect(error.message).toContain('ended before the tool answered')
      expect((await fetch(`${server.url}/health`)).status).toBe(200)
    }
    await greets()
    expect((await call('Deep')).success).toBe(false)
  })

  it.runIf(process.platform === 'linux')(
    'does not outlive the server, not even in a loop',
    { timeout: LIMIT_MS },
    async () => {
      await greets()
      const looping = call('Loop').catch(() => undefined)
      await expect.poll(() => server.output(), { timeout: 40_000 }).toContain('looping')
      const children = descendantsOf(server.pid)
      expect(children.length).toBeGreaterThan(0)
      await server.stop('SIGKILL')
      await looping
      await expect.poll(() => children.filter(isAlive), { timeout: 40_000 }).toEqual([])
    },
  )
})

function descendantsOf(pid: number): readonly number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const parent = statOf(Number(name))?.[1]
      return parent === undefined ? [] : [[Number(name), Number(parent)] as const]
    })
  const children = (of: number): readonly number[] =>
    parents.filter(([, parent]) => parent === of).flatMap(([child]) => [child, ...children(child)])
  return children(pid)
}

/** State, parent, … of a process; `undefined` if it has ended. */
function statOf(pid: number): readonly string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
  } catch {
    return undefined
  }
}

/** A zombie, whose parent has not waited for it, counts as dead. */
function isAlive(pid: number): boolean {
  const state = statOf(pid)?.[0]
  return state !== undefined && state !== 'Z'
}
