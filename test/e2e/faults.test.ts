import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, FaultProject } from './fault-project.ts'

// Configs with typos and tool files that throw: test/cli/process.test.ts. Requests that are wrong, slow or too large:
// test/server/odd-requests.test.ts. A run that outlasts the grace period of a stop: src/kernel/call/execute.interruption.test.ts.

const LIMIT_MS = 60_000
const PATIENTLY = { timeout: 15_000, interval: 20 }
/** About three quarters of a megabyte, or twice that if the shell counts in kilobytes. */
const SMALL_DISK_BLOCKS = 1_536

let project: FaultProject
beforeEach(() => {
  project = new FaultProject()
})
afterEach(() => project.remove())

/** Whether a limit of a running process can be changed from outside. */
function canLiftLimits(): boolean {
  return spawnSync('prlimit', ['--pid', String(process.pid), '--fsize']).status === 0
}

async function verifyJournal(): Promise<void> {
  const verified = await project.collet(['journal', 'verify'])
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('✓ The journal is intact') })
}

describe('a full disk', { timeout: LIMIT_MS }, () => {
  it('rule 11: accepts no new call, answers earlier ones, does not crash, and loses nothing', async () => {
    const small = await project.serve({ fileBlocks: SMALL_DISK_BLOCKS })
    const acknowledged = new Map<string, string>()
    let refused: Answer | undefined
    for (let index = 0; refused === undefined && index < 1_000; index += 1) {
      const answer = await project.call(small, 'Fault.Write', `key-${index}`, { padding: 4_000 })
      if (answer.json.result?.success === true) acknowledged.set(`key-${index}`, answer.text)
      else refused = answer
    }
    const failedKey = `key-${acknowledged.size}`
    expect(acknowledged.size).toBeGreaterThan(2)
    const wasRun = refused?.status === 200
    const code = wasRun ? 'outcome_unknown' : 'not_ready'
    expect(refused?.headers.get('collet-error-code')).toBe(code)
    if (!wasRun) {
      expect(refused?.status).toBe(400)
      expect(refused?.headers.get('x-should-retry')).toBe('true')
      expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expect(refused?.text).not.toMatch(/SQLITE|disk|collet\.db/i)

    const health = await fetch(`${small.url}/health`)
    const body = {
      $schema: 'otc://1.0',
      status: 'unavailable',
      reason: 'store_unavailable',
      message: expect.any(String),
    }
    expect([health.status, await health.json()]).toEqual([503, body])
    for (const [key, text] of acknowledged) {
      expect((await project.call(small, 'Fault.Write', key, { padding: 4_000 })).text).toBe(text)
    }
    await small.stop('SIGKILL')

    const roomy = await project.serve()
    expect((await fetch(`${roomy.url}/health`)).status).toBe(200)
    for (const [key, text] of acknowledged) {
      expect((await project.call(roomy, 'Fault.Write', key, { padding: 4_000 })).text).toBe(text)
    }
    const again = await project.call(roomy, 'Fault.Write', failedKey, { padding: 4_000 })
    if (wasRun) expect(again.headers.get('collet-error-code')).toBe('ambiguous')
    else expect(again.json.result.success).toBe(true)
    expect([...project.effects().values()].every((count) => count === 1)).toBe(true)
    expect(project.effects().size).toBe(acknowledged.size + 1)
    expect(await roomy.stop()).toBe(0)
    await verifyJournal()
  })

  it.skipIf(!canLiftLimits())(
    'rule 11: continues once there is space again; pending outcomes are stored and nothing ran twice',
    async () => {
      const server = await project.serve({ fileBlocks: SMALL_DISK_BLOCKS })
      const asked: string[] = []
      for (let isFull = false; !isFull && asked.length < 1_000; ) {
        const keys = Array.from({ length: 8 }, (_unused, index) => `key-${asked.length + index}`)
        asked.push(...keys)
        const answers = await Promise.all(
          keys.map((key) => project.call(server, 'Fault.Write', key, { padding: 4_000 })),
        )
        isFull = answers.some(({ json }) => json.result?.success !== true)
      }
      expect((await fetch(`${server.url}/health`)).status).toBe(503)
      execFileSync('prlimit', ['--pid', String(server.pid), '--fsize=unlimited:'])
      await expect.poll(async () => (await fetch(`${server.url}/health`)).status, PATIENTLY).toBe(200)
      for (const key of asked) {
        const again = await project.call(server, 'Fault.Write', key, { padding: 4_000 })
        expect([key, again.json.result?.success]).toEqual([key, true])
      }
      expect(project.effects().size).toBe(asked.length)
      expect([...project.effects().values()].every((count) => count === 1)).toBe(true)
      expect(await server.stop()).toBe(0)
      await verifyJournal()
    },
  )
})

describe('a database that cannot be opened', { timeout: LIMIT_MS }, () => {
  async function usedStore(): Promise<void> {
    const server = await project.serve()
    for (let index = 0; index < 20; index += 1) {
      await project.call(server, 'Fault.Write', `key-${index}`, { padding: 4_000 })
    }
    expect(await server.stop()).toBe(0)
  }

  it('an overwritten header is reported with exit code 3, and the file is not changed', async () => {
    await usedStore()
    const file = openSync(project.database, 'r+')
    writeSync(file, Buffer.alloc(100, 0x5a), 0, 100, 0)
    closeSync(file)
    const before = readFileSync(project.database)
    const ended = await project.collet(['serve'])
    expect(ended).toMatchObject({ code: 3, stdout: '' })
    expect(ended.stderr).toMatch(
      /✗ Store: cannot open .*collet\.db: the file is not a SQLite database, or it is damaged/,
    )
    expect(ended.stderr).not.toMatch(/\n\s+at /)
    expect(readFileSync(project.database).equals(before)).toBe(true)
  })

  it('a truncated file is reported with exit code 3', async () => {
    await usedStore()
    truncateSync(project.database, 8_192)
    const ended = await project.collet(['serve'])
    expect(ended.code).toBe(3)
    expect(ended.stderr).toMatch(/✗ Store: .*damaged; restore it from a backup/)
    expect(ended.stderr).not.toMatch(/\n\s+at /)
  })

  it('rule 14: another COLLET_KEY is refused with exit code 3 and advice, by serve and by operator commands', async () => {
    await usedStore()
    const env = { COLLET_KEY: Buffer.alloc(32, 1).toString('base64') }
    for (const command of [['serve'], ['calls'], ['journal', 'verify']]) {
      const ended = await project.collet(command, { env })
      expect(ended).toMatchObject({ code: 3, stdout: '' })
      expect(ended.stderr).toMatch(/the key does not fit this database\. Set COLLET_KEY/)
    }
    await verifyJournal()
  })
})

it('a port in use by this project or another program is reported with exit code 3, and its server keeps serving', {
  timeout: LIMIT_MS,
}, async () => {
  const server = await project.serve()
  const { port } = new URL(server.url)
  const ended = await project.collet(['serve', '--port', port])
  expect(ended).toMatchObject({ code: 3, stdout: '' })
  expect(ended.stderr).toContain(`Collet already serves this project on ${server.url}`)
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const taken = String((other.address() as AddressInfo).port)
  const refused = await project.collet(['serve', '--port', taken])
  other.close()
  expect(refused).toMatchObject({ code: 3, stdout: '' })
  expect(refused.stderr).toContain(`Port ${taken} on 127.0.0.1 is already in use`)
  expect((await project.call(server, 'Fault.Write', 'key')).json.result.success).toBe(true)
})

describe('a server that gets a stop signal while a write runs', { timeout: LIMIT_MS }, () => {
  it('lets it finish, answers its caller, and exits with 0', async () => {
    const server = await project.serve()
    const running = project.call(server, 'Fault.Write', 'key', { waits: true })
    await expect.poll(() => project.effects().get('key'), PATIENTLY).toBe(1)
    const stopped = server.stop()
    await expect.poll(() => server.output(), PATIENTLY).toContain('Stopping')
    project.letGo()
    const answer = await running
    expect(answer.json.result.success).toBe(true)
    expect(await stopped).toBe(0)
    const next = await project.serve()
    expect((await project.call(next, 'Fault.Write', 'key', { waits: true })).text).toBe(answer.text)
    expect(project.effects().get('key')).toBe(1)
  })

  it('exits at once with 3 after a second signal, and the write is ambiguous', async () => {
    const server = await project.serve()
    const running = project.call(server, 'Fault.Write', 'key', { waits: true }).catch(() => undefined)
    await expect.poll(() => project.effects().get('key'), PATIENTLY).toBe(1)
    const stopped = server.stop()
    await expect.poll(() => server.output(), PATIENTLY).toContain('again to stop at once')
    void server.stop()
    expect(await stopped).toBe(3)
    await running
    const next = await project.serve()
    const answer = await project.call(next, 'Fault.Write', 'key', { waits: true })
    expect(answer.headers.get('collet-error-code')).toBe('ambiguous')
    expect(project.effects().get('key')).toBe(1)
  })
})

describe('a server that is killed while calls run', { timeout: LIMIT_MS }, () => {
  /** Begins these calls, kills the server in the middle of all of them, and starts the next one. */
  async function cut(calls: readonly (readonly [tool: string, id: string])[]) {
    const server = await project.serve()
    const all = calls.map(([tool, id]) =>
      project.call(server, tool, id, { waits: true }).catch(() => undefined),
    )
    await expect.poll(() => project.effects().size, PATIENTLY).toBe(calls.length)
    await server.stop('SIGKILL')
    await Promise.all(all)
    project.letGo()
    return await project.serve()
  }

  async function ambiguousRecords(): Promise<ReadonlyMap<string, string>> {
    const listed = await project.collet(['calls', '--state', 'ambiguous', '--json'])
    expect(listed.code).toBe(0)
    const records: { record: string; call_id: string }[] = JSON.parse(listed.stdout)
    return new Map(records.map(({ record, call_id }) => [call_id, record]))
  }

  it('rule 8: a read and an idempotent write run again, a write does not', async () => {
    const next = await cut([
      ['Fault.Read', 'read'],
      ['Fault.Idempotent', 'idempotent'],
      ['Fault.Write', 'write'],
    ])
    const codes = await Promise.all(
      [
        ['Fault.Read', 'read'],
        ['Fault.Idempotent', 'idempotent'],
        ['Fault.Write', 'write'],
      ].map(async ([tool = '', id = '']) => {
        const { status, headers } = await project.call(next, tool, id, { waits: true })
        return [status, headers.get('collet-error-code')]
      }),
    )
    expect(codes).toEqual([
      [200, null],
      [200, null],
      [200, 'ambiguous'],
    ])
    expect(Object.fromEntries(project.effects())).toEqual({ read: 2, idempotent: 2, write: 1 })
  })

  it('rule 12: an ambiguous call is listed until it is settled, and then returns the settled outcome', async () => {
    const ids = ['with-value', 'without-value', 'failed', 'not-run'] as const
    const next = await cut(ids.map((id) => ['Fault.Write', id] as const))
    const ask = async (id: string) => await project.call(next, 'Fault.Write', id, { waits: true })
    const first = await ask('with-value')
    expect(first.json.result).toMatchObject({
      success: false,
      error: { message: expect.stringContaining('Check for its effect') },
    })
    expect(first.json.result.error).not.toHaveProperty('can_retry')
    const records = await ambiguousRecords()
    expect([...records.keys()].sort()).toEqual([...ids].sort())

    const settle = async (id: string, ...options: string[]) =>
      await project.collet(['calls', 'settle', records.get(id) ?? '', '--why', 'I looked.', ...options])
    const settled = await Promise.all([
      settle('with-value', '--as', 'succeeded', '--value', '{"n":1}'),
      settle('without-value', '--as', 'succeeded'),
      settle('failed', '--as', 'failed', '--url', next.url),
      settle('not-run', '--as', 'not-run'),
    ])
    expect(settled.map(({ code, stderr }) => [code, stderr])).toEqual(
      ids.map(() => [0, expect.stringMatching(/^Acting as (?:cli:|operator )[^\n]*\n$/)]),
    )
    expect(await settle('failed', '--as', 'not-run')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Only an ambiguous call can be settled'),
    })

    expect((await ask('with-value')).json.result).toMatchObject({ success: true, value: { n: 1 } })
    const unknown = await ask('without-value')
    expect(unknown.headers.get('collet-error-code')).toBe('outcome_unknown')
    expect(unknown.json.result.error.message).toContain('took effect')
    expect((await ask('failed')).headers.get('collet-error-code')).toBe('tool_failed')
    expect((await ask('not-run')).json.result.success).toBe(true)
    expect(Object.fromEntries(project.effects())).toEqual({
      'with-value': 1,
      'without-value': 1,
      failed: 1,
      'not-run': 2,
    })
    expect(await next.stop()).toBe(0)
    const journal = await project.collet(['journal', '--json'])
    const events = journal.stdout.split('\n').filter((line) => line.includes('call.settled'))
    expect(events).toHaveLength(4)
    for (const line of events)
      expect(JSON.parse(line)).toMatchObject({ why: 'I looked.', who: expect.any(String) })
    await verifyJournal()
  })
})
