import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { readJsonConfig } from '#config/json-config'
import { parseConfig } from '#config/load'
import { toWebhooks } from '#config/webhooks'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { NOTICE_KINDS } from '#kernel/journal/notices'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleParking } from '../contracts/approval-store-contract.ts'
import { sampleCall } from '../contracts/samples.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })

describe('webhooks of a config', () => {
  let folder = ''
  let receiver: Server
  let base = ''
  let status = 204
  let taken: { readonly path: string; readonly type: string; readonly body: string }[] = []

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-webhooks-'))
    status = 204
    taken = []
    receiver = createServer(async (request, response) => {
      const body = await text(request)
      taken.push({ path: request.url ?? '', type: JSON.parse(body).type ?? 'chat', body })
      response.writeHead(status).end('secret words of the receiver')
    }).listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    const address = receiver.address()
    base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    writeConfig([
      { name: 'pager', url: `${base}/pager-path`, secret: 'w-0123456789abcdef', events: ['budget.*'] },
      { url: `${base}/chat-path`, format: 'slack', events: ['pin.held', 'aproval.*'] },
    ])
  })
  afterEach(() => {
    receiver.close()
    receiver.closeAllConnections()
    rmSync(folder, { recursive: true })
  })

  function writeConfig(webhooks: readonly object[]): void {
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ store: 'sqlite:collet.db', webhooks }))
  }

  async function run(...argv: string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
    const code = await io.run(...argv)
    return { code, stdout: io.stdout, stderr: io.stderr }
  }

  it('are listed before there is a store, without secrets and paths', async () => {
    const { code, stdout } = await run('webhooks')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^pager +json +http:\/\/127\.0\.0\.1:\d+ +budget\.\* +0 +- +0 +0 +-$/m)
    expect(stdout).toMatch(/^127\.0\.0\.1 +slack /m)
    expect(stdout).not.toMatch(/pager-path|chat-path|w-0123456789abcdef/)
    writeConfig([])
    expect((await run('webhooks')).stderr).toContain('There are no webhooks')
  })

  it('get a sample of every event they subscribe to, and their answers are printed', async () => {
    const all = await run('webhooks', 'test')
    expect(all.code).toBe(0)
    expect(all.stdout).toMatch(/^✓ pager budget\.80: answered 204\n✓ pager budget\.100: answered 204$/m)
    expect(taken.map(({ type }) => type).sort()).toEqual(['budget.100', 'budget.80', 'chat'])
    expect(taken.every(({ body }) => /"test":true|Test, nothing happened/.test(body))).toBe(true)
    status = 500
    const one = await run('webhooks', 'test', 'pager')
    expect([one.code, one.stdout]).toEqual([1, '✗ pager budget.80: answered 500\n'])
    expect(all.stdout + one.stdout).not.toContain('secret words')
    const unknown = await run('webhooks', 'test', 'pagr')
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('Did you mean "pager"?')])
  })

  it('can be tested before they are in the config', async () => {
    const { code, stdout } = await run('webhooks', 'test', `${base}/new`, '--json')
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toHaveLength(NOTICE_KINDS.length)
    expect(new Set(taken.map(({ path }) => path))).toEqual(new Set(['/new']))
    receiver.close()
    receiver.closeAllConnections()
    const away = await run('webhooks', 'test', `${base}/new`, '--format', 'teams')
    expect(away.stdout).toMatch(
      /^✗ 127\.0\.0\.1 approval\.requested: could not be reached \(ECONNREFUSED\)$/m,
    )
  })

  it('that fail are reported by the list and by the doctor, which also finds misspelled events', async () => {
    const { config } = readJsonConfig(readFileSync(join(folder, 'collet.config.json'), 'utf8'), {})
    const [pager] = toWebhooks(parseConfig(config, 'collet.config.json'))
    const kinds = new Set(NOTICE_KINDS)
    const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
    store.notices.listen([
      { target: 'gone', kinds },
      { target: pager?.target ?? '', kinds },
    ])
    await store.approvals.park(sampleCall(), sampleParking())
    const [notice = expect.fail('there is no notice')] = await store.notices.take(
      ...([pager?.target ?? '', 5_000, 1_000, 1] as const),
    )
    await store.notices.settle(notice, { kind: 'given_up', failure: 'answered 410', atMs: 6_000 })
    await store.close()
    const listed = await run('webhooks')
    expect(listed.stdout).toMatch(/^pager .* 0 +- +0 +1 +answered 410 at 1970-01-01T00:00:06\.000Z$/m)
    expect(listed.stderr).toContain('1 message waits for webhooks that this config does not have')
    const { stdout } = await run('doctor')
    expect(stdout).toContain('The webhook pager lost 1 message in a week. Last failure: answered 410')
    expect(stdout).toContain('1 message waits for webhooks that this config does not have')
    expect(stdout).toContain('webhook "127.0.0.1": there is no event "aproval.*". Did you mean "approval.*"?')
  })
})
