import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { attemptAt, sampleCall, success } from '../contracts/samples.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })

describe('inspecting calls in a real store', () => {
  let folder = ''
  let store: Store

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-calls-'))
    store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
    const now = Date.now()
    const old = sampleCall({ record: 'abc-old', atMs: now - 3 * 86_400_000 })
    const fresh = sampleCall({
      record: 'abd-new',
      tenant: 'team1',
      tool: 'Crm.Find@1.0.0',
      atMs: now - 5_000,
    })
    for (const call of [old, fresh]) {
      await store.claim(call)
      const run = attemptAt(call, 1)
      const atMs = call.atMs + 1_500
      await store.finish({
        run,
        state: 'succeeded',
        outcome: { ...success('{"ok":"yes"}'), durationMs: 1_500 },
        atMs,
      })
    }
  })
  afterEach(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  async function run(...argv: string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
    const code = await io.run(...argv, '--store', 'sqlite:collet.db')
    return { code, stdout: io.stdout, stderr: io.stderr }
  }

  it("accepts a tool's own name from the config too, and suggests a name for a misspelled one", async () => {
    const definition = `{ [Symbol.for('collet.tool')]: true, id: 'Crm.Find@1.0.0', name: 'look_up', description: 'Finds.',
      input: { type: 'object', properties: {} }, output: {}, run: () => 1 }`
    const config = `export default { store: 'sqlite:collet.db', tools: [${definition}] }`
    writeFileSync(join(folder, 'collet.config.mjs'), config)
    const withConfig = async (...argv: string[]) => {
      const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
      await io.run('calls', ...argv)
      return io.stdout + io.stderr
    }
    for (const name of ['look_up', 'look_up@1.0.0', 'Crm.Find', 'crm_find', 'openwop:Crm.Find', 'Crm.*'])
      expect(await withConfig('--tool', name)).toMatch(/^RECORD.*\nabd-new .*\n$/)
    expect(await withConfig('--tool', 'look_up@2.0.0')).toContain('No call matches')
    expect(await withConfig('--tool', 'look_upp')).toContain(
      '--tool: there is no tool "look_upp". Did you mean "look_up"?',
    )
  })

  it('filters by tool, tenant and time, and shows durations', async () => {
    const since = await run('calls', '--since', '1d')
    expect(since.stdout).toMatch(/abd-new +succeeded +Crm\.Find@1\.0\.0 +team1 +key:alice +\S+ +1500 ms/)
    expect(since.stdout).not.toContain('abc-old')
    expect((await run('calls', '--until', '1d')).stdout).toContain('abc-old')
    expect(JSON.parse((await run('calls', '--tool', 'Crm_Find', '--json')).stdout)).toMatchObject([
      { record: 'abd-new', tenant: 'team1', took_ms: 1_500 },
    ])
    expect((await run('calls', '--tenant', 'team1', '--slow', '2000')).stderr).toContain('No call matches')
  })

  it('counts the usage of each team', async () => {
    const { stdout } = await run('usage', '--by', 'tenant,tool', '--since', '30d')
    expect(stdout).toMatch(/^TENANT +TOOL +CALLS +ERRORS +REJECTED +SECONDS +COST +P50 MS +P95 MS$/m)
    expect(stdout).toMatch(/^team1 +Crm\.Find@1\.0\.0 +1 +0 +0 +1\.5 +1 +1500 +1500$/m)
    expect(JSON.parse((await run('usage', '--json')).stdout)).toMatchObject([
      { names: { tenant: 'default' }, calls: 1 },
      { names: { tenant: 'team1' }, calls: 1, errors: 0, seconds: 1.5, p50_ms: 1_500 },
    ])
    expect((await run('usage', '--since', '1h', '--tenant', 'default')).stderr).toContain(
      'no calls in this period',
    )
    expect((await run('usage', '--by', 'team')).stderr).toContain('--by expects tenant, principal, tool')
  })

  it('prints what is left of the budgets in the config', async () => {
    expect((await run('budgets')).stderr).toContain('No budget has been used yet')
    const lengthMs = 86_400_000
    const startMs = Math.floor(Date.now() / lengthMs) * lengthMs
    const window = { tenant: 'team1', principal: undefined, lengthMs, startMs }
    const limit = { calls: 100, milliseconds: 1_000, cost: 1_000 }
    await store.budgets.lease(window, { calls: 30, milliseconds: 0, cost: 0 }, limit, 1_000)
    const alone = await run('budgets')
    expect(alone.stdout).toMatch(/^team1 +- +1d +calls +- +30 +- /m)
    const budgets = [{ for: 'tenant', of: ['team1'], window: '1d', calls: 100 }]
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ store: 'sqlite:collet.db', budgets }))
    const known = await run('budgets', '--config', 'collet.config.json')
    expect(known.stdout).toMatch(/^team1 +- +1d +calls +100 +30 +70 +\d{4}-/m)
  })

  it('prints matching calls as they change, until it is stopped', async () => {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
    const filter = ['--tool', 'crm.*', '--state', 'error,succeeded', '--store', 'sqlite:collet.db']
    const following = io.run('calls', '--follow', ...filter)
    const calls = [
      sampleCall({ record: 'abe-other' }),
      sampleCall({ record: 'abf-crm', tenant: 'team1', tool: 'Crm.Add@1.0.0' }),
    ]
    // The first read of the command prints nothing; later changes are printed.
    for (let n = 0; !io.stdout.includes('abf-crm') && n < 100; n += 1) {
      for (const call of calls) {
        const record = `${call.record}-${n}`
        await store.claim({ ...call, record })
        const run = attemptAt({ ...call, record }, 1)
        await store.finish({
          run,
          state: 'succeeded',
          outcome: { ...success('1'), durationMs: 20 },
          atMs: call.atMs + 60_000,
        })
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    io.stop()
    expect(await following).toBe(0)
    expect(io.stdout).toMatch(/^\S+ succeeded Crm\.Add@1\.0\.0 team1 key:alice 20 ms abf-crm-\d+$/m)
    expect(io.stdout).not.toContain('abe-other')
    expect((await run('calls', '--follow', '--limit', '5')).stderr).toContain('--limit is for the list')
  })

  it('explains the format of a time', async () => {
    const { code, stderr } = await run('calls', '--since', 'yesterday')
    expect(code).toBe(2)
    expect(stderr).toContain('or how long ago, like 30m, 12h or 7d')
    expect((await run('calls', '--since', '1h', '--until', '2h')).stderr).toContain('must be before')
  })

  it('shows input, outcome and timeline for an id prefix, and journals who read them', async () => {
    const { code, stdout, stderr } = await run('calls', 'show', 'abd')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^record +abd-new$/m)
    expect(stdout).toMatch(/^took +1500 ms$/m)
    expect(stdout).toContain('"doorbell_id": "doorbell42"')
    expect(stdout).toContain('"ok": "yes"')
    expect(stdout).toMatch(/timeline:\n {2}\S+ called attempt=1\n {2}\S+ returned attempt=1/)
    expect(stderr).toContain('Acting as cli:tester, directly on the store')
    const journal = await run('journal')
    expect(journal.stdout).toMatch(/call\.shown record=abd-new .*by=cli:tester/)
  })

  it('exports what a filter selects, as CSV, JSON lines or a file, and journals it', async () => {
    const csv = await run('export', 'calls', '--tenant', 'team1')
    expect(csv.code).toBe(0)
    expect(csv.stdout).toMatch(/^record,created_at,.*\r\nabd-new,[^\n]*\r\n$/)
    expect(csv.stderr).toContain('Acting as cli:tester, directly on the store')
    const lines = (await run('export', 'journal', '--object', 'abc-old', '--json')).stdout
      .trimEnd()
      .split('\n')
    expect(lines.map((line) => JSON.parse(line).type)).toEqual(['call.succeeded', 'call.claimed'])
    const toFile = await run('export', 'usage', '--since', '7d', '--out', 'usage.csv')
    expect([toFile.code, toFile.stdout]).toEqual([0, ''])
    expect(readFileSync(join(folder, 'usage.csv'), 'utf8')).toMatch(/^tenant,principal,tool,calls,/)
    const journal = await run('journal', '--action', 'data.exported', '--person', 'cli:tester')
    expect(journal.stdout.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/data\.exported what=calls format=csv filter=.*tenant.*team1/),
      expect.stringContaining('what=journal format=jsonl'),
      expect.stringContaining('what=usage format=csv'),
    ])
    expect((await run('export', 'usage', '--tool', 'X')).stderr).toContain(
      'Filters of usage: --tenant, --since',
    )
    expect((await run('export', 'keys')).stderr).toContain(
      'expects journal, calls, usage, approvals, denials',
    )
  })

  it('lists the matches of an ambiguous prefix, and chooses none', async () => {
    const { code, stdout, stderr } = await run('calls', 'show', 'ab')
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/The ids of 2 calls begin with "ab".*\n {2}abc-old .*\n {2}abd-new /)
    expect((await run('calls', 'show', 'x')).stderr).toContain('There is no call whose id is "x"')
  })
})
