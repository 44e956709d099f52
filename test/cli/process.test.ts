import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const ROOT = new URL('../../', import.meta.url).pathname
const MAIN = join(ROOT, 'src/cli/main.ts')
const NODE_FLAGS = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']

/** A real process and its output so far. */
class Run {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  stdout = ''
  stderr = ''
  readonly #waiting = new Set<() => void>()

  constructor(args: readonly string[], cwd: string, env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [...args], { cwd, env: { ...process.env, NO_COLOR: '1', ...env } })
    this.child.stdout?.on('data', (chunk) => this.#wrote('stdout', chunk))
    this.child.stderr?.on('data', (chunk) => this.#wrote('stderr', chunk))
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code) => {
        resolve(code)
        this.#wake()
      })
    })
  }

  /** Waits until the output matches. */
  async says(pattern: RegExp, from: 'stdout' | 'stderr' = 'stdout'): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this[from])
      if (match !== null) return match
      if (this.child.exitCode !== null)
        throw new Error(`ended without ${pattern}: ${this.stdout}${this.stderr}`)
      await new Promise<void>((resolve) => this.#waiting.add(resolve))
    }
  }

  #wrote(to: 'stdout' | 'stderr', chunk: unknown): void {
    this[to] += String(chunk)
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

describe('the collet process', () => {
  let folder = ''
  const runs: Run[] = []
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    write('package.json', '{"type":"module"}')
  })
  afterEach(async () => {
    for (const run of runs.splice(0)) {
      if (run.child.exitCode === null) run.child.kill('SIGTERM')
      await run.ended
    }
    rmSync(folder, { recursive: true })
  })

  function write(name: string, text: string): void {
    writeFileSync(join(folder, name), text)
  }

  function collet(...args: string[]): Run {
    const run = new Run([...NODE_FLAGS, MAIN, ...args], folder)
    runs.push(run)
    return run
  }

  const TOOL = `{ [Symbol.for('collet.tool')]: true, id: 'T.A@1.0.0', description: 'D.', policy: { safetyTier: 'pure' },
    input: { type: 'object' }, output: {}, run: () => 'first' }`

  it('serves, answers its example curl, and exits on a signal with code 0', async () => {
    write('collet.config.ts', `export default { tools: [${TOOL}], server: { port: 0 } }`)
    const run = collet('serve')
    const [, url = ''] = await run.says(/on (http:\S+)/)
    const [, curl = ''] = await run.says(/Try it +(curl .*)\n/)
    expect(run.stdout).toMatch(
      /MCP +http:\/\/127\.0\.0\.1:\d+\/mcp \(for your client: \S*\/collet connect CLIENT\)/,
    )
    expect(curl).toContain(`${url}/tools/call`)
    const [, body = ''] = /-d '(.*)'/.exec(curl) ?? []
    const response = await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    expect(await response.json()).toMatchObject({ result: { success: true, value: 'first' } })
    run.child.kill('SIGINT')
    expect(await run.ended).toBe(0)
  })

  it("updates the banner's tool count when a slow source was read", async () => {
    const server = join(ROOT, 'test/cli/small-mcp-server.mjs')
    // A start waits three seconds for sources.
    const slow = `setTimeout(() => import(${JSON.stringify(server)}), 5_000)`
    const Notes = { type: 'mcp', command: process.execPath, args: ['-e', slow, '-', 'notes', 'read_note'] }
    write('collet.config.json', JSON.stringify({ sources: { Notes }, server: { port: 0 }, store: 'memory:' }))
    const run = collet('serve')
    await run.says(/serves 0 tools \(1 source\) on http:/)
    await run.says(/Notes is still starting/)
    await run.says(/✓ Notes: 1 tool\n/, 'stderr')
  })

  it('exits when its terminal is closed, as on any other signal', async () => {
    write('collet.config.ts', `export default { tools: [${TOOL}], server: { port: 0 }, store: 'memory:' }`)
    // Without a terminal the signal reads the config again: test/e2e/reload.test.ts.
    const onTerminal = 'data:text/javascript,process.stdin.isTTY=true'
    const run = new Run([...NODE_FLAGS, '--import', onTerminal, MAIN, 'serve'], folder)
    await run.says(/on http:\S+/)
    run.child.kill('SIGHUP')
    expect(await run.ended).toBe(0)
    expect(run.stderr).toContain('Stopping')
  })

  it('names the file and line of a tool that throws, and of syntax that Node cannot strip', async () => {
    write('collet.config.ts', `export default { tools: ['./throws.ts', './enum.ts'] }`)
    write('throws.ts', `\nthrow new Error('no such variable')\nexport {}`)
    write('enum.ts', 'export enum Color { Red }')
    const run = collet('serve')
    expect(await run.ended).toBe(2)
    expect(run.stderr).toContain('✗ throws.ts: at ')
    expect(run.stderr).toContain('throws.ts:2:7: failed while loading: Error: no such variable')
    expect(run.stderr).toContain('✗ enum.ts: at ')
    expect(run.stderr).toContain('enum, namespace, parameter properties')
    expect(run.stdout).toBe('')
  })

  it('restarts on a change, and waits while the config is invalid', async () => {
    const config = (value: string) =>
      write(
        'collet.config.ts',
        `export default { tools: [${TOOL.replace('first', value)}], server: { port: 0 }, store: 'memory:' }`,
      )
    config('one')
    const run = collet('serve', '--watch')
    await run.says(/on http:\S+/)
    write('collet.config.ts', `export default { sever: {} }`)
    await run.says(/unknown key "sever".*\n.*ended with exit code 2\. Waiting for a change/, 'stderr')
    run.stdout = ''
    config('two')
    const [, url = ''] = await run.says(/on (http:\S+)/)
    const response = await fetch(`${url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"request":{"tool_id":"T.A"}}',
    })
    expect(await response.json()).toMatchObject({ result: { value: 'two' } })
    run.child.kill('SIGTERM')
    expect(await run.ended).toBe(0)
    await expect(fetch(url)).rejects.toThrow()
  })

  it('exits without an error when the reader of a pipe closes it', async () => {
    const run = collet('--help')
    run.child.stdout?.destroy()
    expect(await run.ended).toBe(0)
    expect(run.stderr).not.toContain('EPIPE')
  })
})
