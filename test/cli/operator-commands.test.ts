import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Services } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { CallRecord, Settlement, SettleResult } from '#kernel/call/call-record'
import type { JournalGroup } from '#kernel/journal/events'
import type { CallFilter } from '#store/call-filter'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import type { JournalVerification } from '#store/verify'
import { FakeIo } from './fake-io.ts'

const RECORD: CallRecord = {
  tenant: 'default',
  record: '-rec1',
  principal: 'key:alice',
  callId: 'ring-1',
  runId: undefined,
  run: undefined,
  sessionId: undefined,
  toolId: 'openwop:Doorbell.Ring',
  transport: 'native',
  argsHash: '',
  traceId: 't',
  userId: undefined,
  protocol: undefined,
  fingerprint: 'f',
  tool: 'Doorbell.Ring@0.1.0',
  definitionHash: 'd',
  tier: 'write',
  replay: 'non-deterministic',
  rerunUntilMs: 0,
  state: 'ambiguous',
  attempt: 1,
  writer: 'w',
  createdAtMs: Date.UTC(2026, 0, 2),
  finishedAtMs: undefined,
  outcome: undefined,
  expired: false,
  late: undefined,
  root: undefined,
  parent: undefined,
  resumable: false,
  waitsFor: undefined,
}

describe("operators' commands", () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    writeFileSync(join(folder, 'collet.db'), '')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  const storeFlag = () => `--store=sqlite:${join(folder, 'collet.db')}`

  /** A memory store with some methods replaced by the test. */
  function withStore(answers: Partial<Store>): Partial<Services> & { closed: () => boolean } {
    const store: Store = openMemoryStore()
    let closed = false
    Object.assign(store, answers, {
      close: () => {
        closed = true
      },
    })
    return { openStore: async () => store, closed: () => closed }
  }

  describe('collet calls', () => {
    it('lists by state and closes the store', async () => {
      const filters: CallFilter[] = []
      const list = (filter: CallFilter) => {
        filters.push(filter)
        return { calls: [RECORD] }
      }
      const services = withStore({ list })
      const io = new FakeIo(services)
      expect(await io.run('calls', '--state', 'ambiguous', '--limit', '5', storeFlag())).toBe(0)
      expect(filters).toEqual([{ states: ['ambiguous'], limit: 5 }])
      expect(io.stdout).toMatch(/-rec1 +ambiguous +Doorbell\.Ring@0\.1\.0 +default +key:alice +2026-01-02T/)
      expect(services.closed()).toBe(true)
    })

    it('shows whole call ids on a narrow terminal', async () => {
      const callId = 'a-call-id-that-is-much-longer-than-the-window'
      let shown = ''
      const stdout = { write: (text: string) => (shown += text), isTTY: true, columns: 40 }
      const io = new FakeIo(withStore({ list: () => ({ calls: [{ ...RECORD, callId }] }) }), { stdout })
      await io.run('calls', storeFlag())
      expect(shown).toContain(callId)
    })

    it('prints one JSON array with --json', async () => {
      const io = new FakeIo(withStore({ list: () => ({ calls: [RECORD] }) }))
      await io.run('calls', '--json', storeFlag())
      expect(JSON.parse(io.stdout)).toMatchObject([
        { record: '-rec1', state: 'ambiguous', finished_at: null },
      ])
    })

    it('refuses an unknown state, a memory store and a missing database', async () => {
      const io = new FakeIo()
      expect(await io.run('calls', '--state', 'dead', storeFlag())).toBe(2)
      expect(io.stderr).toContain('--state expects one or more of parked, running')
      expect(await io.run('calls', '--store', 'memory:')).toBe(2)
      expect(io.stderr).toContain('only the running server can see')
      expect(await io.run('calls', `--store=sqlite:${join(folder, 'gone.db')}`)).toBe(2)
      expect(io.stderr).toContain('There is no database at')
    })
  })

  describe('collet calls settle', () => {
    const settling = (result: SettleResult, seen: Settlement[] = []) =>
      withStore({
        findByRecord: () => RECORD,
        findByPrefix: () => [RECORD],
        settle: async (settlement) => {
          seen.push(settlement)
          return result
        },
      })

    it('rule 12: journals the operator and the reason', async () => {
      const seen: Settlement[] = []
      const io = new FakeIo(settling('settled', seen))
      const argv = [
        'calls',
        'settle',
        '-rec1',
        '--as',
        'succeeded',
        '--value',
        '{"a":1}',
        '--why',
        'I looked.',
      ]
      expect(await io.run(...argv, storeFlag())).toBe(0)
      expect(seen).toMatchObject([
        { record: '-rec1', as: 'succeeded', valueJson: '{"a":1}', who: 'cli:tester', why: 'I looked.' },
      ])
      expect(io.stdout).toBe('-rec1 is settled as succeeded.\n')
    })

    it('settles a call as failed, with the error for its caller', async () => {
      const seen: Settlement[] = []
      await new FakeIo(settling('settled', seen)).run(
        'calls',
        'settle',
        '-rec',
        '--as',
        'failed',
        '--why',
        'x',
        storeFlag(),
      )
      expect(seen[0]?.error).toMatchObject({ code: 'tool_failed', canRetry: false })
    })

    it.each<[string[], string]>([
      [['--why', 'x'], 'Give the outcome'],
      [['--as', 'failed'], 'Give the evidence'],
      [['--as', 'gone', '--why', 'x'], '--as expects one of succeeded, failed, not-run'],
      [['--as', 'failed', '--why', 'x', '--value', '1'], '--value can only be used with --as succeeded'],
      [['--as', 'succeeded', '--why', 'x', '--value', '{'], '--value is not JSON'],
    ])('refuses %j', async (options, message) => {
      const io = new FakeIo()
      expect(await io.run('calls', 'settle', 'r', ...options, storeFlag())).toBe(2)
      expect(io.stderr).toContain(message)
    })

    it.each<[SettleResult, string]>([
      ['not_found', 'There is no call with this record'],
      ['not_ambiguous', 'Only an ambiguous call can be settled'],
    ])('explains the refusal if the store returns %s', async (result, message) => {
      const io = new FakeIo(settling(result))
      expect(await io.run('calls', 'settle', '-rec1', '--as', 'not-run', '--why', 'x', storeFlag())).toBe(2)
      expect(io.stderr).toContain(message)
      expect(io.stdout).toBe('')
    })
  })

  describe('through a server', () => {
    /** A server that answers every request the same way and remembers it. */
    function server(status: number, answer: object) {
      const requests: { url: string; authorization: string | null; body: string | undefined }[] = []
      const send: typeof fetch = async (input, init) => {
        const { authorization = null } = Object.fromEntries(new Headers(init?.headers))
        requests.push({ url: String(input), authorization, body: init?.body?.toString() })
        return Response.json(answer, { status })
      }
      return { requests, fetch: send }
    }

    it('rule 29: sends the start token to the server at that port', async () => {
      writeFileSync(join(folder, 'start-token-4100'), 'secret-token\n')
      writeFileSync(join(folder, 'start-token-4101'), 'of-another-server\n')
      const { requests, fetch } = server(200, { calls: [], next: null })
      const io = new FakeIo({ fetch })
      expect(await io.run('calls', '--url', 'http://127.0.0.1:4100', storeFlag(), '--state', 'failed')).toBe(
        0,
      )
      expect(requests).toEqual([
        {
          url: 'http://127.0.0.1:4100/admin/calls?state=failed&limit=100',
          authorization: 'Bearer secret-token',
          body: undefined,
        },
      ])
    })

    it('never sends the start token to another machine', async () => {
      writeFileSync(join(folder, 'start-token-443'), 'secret-token\n')
      const { requests, fetch } = server(200, { url: 'https://tools.example.com/console' })
      const io = new FakeIo({ fetch })
      expect(await io.run('calls', '--url', 'https://tools.example.com', storeFlag())).toBe(2)
      expect(io.stderr).toContain('needs a credential')
      expect(await io.run('sign-in', '--url', 'https://tools.example.com', storeFlag())).toBe(2)
      expect(io.stderr).toContain('no start token')
      expect(requests).toEqual([])
    })

    /** As long as a whole record, so it is not looked up as a prefix. */
    const SLASHED = 'a/b'.padEnd(24, 'x')

    it('settles with --key', async () => {
      const { requests, fetch } = server(200, { record: SLASHED, settled_as: 'not-run' })
      const io = new FakeIo({ fetch })
      const argv = [
        'calls',
        'settle',
        SLASHED,
        '--as',
        'not-run',
        '--why',
        'x',
        '--url',
        'http://h:1',
        '--key',
        'k',
      ]
      expect(await io.run(...argv)).toBe(0)
      expect(requests).toEqual([
        {
          url: `http://h:1/admin/calls/${encodeURIComponent(SLASHED)}/settle`,
          authorization: 'Bearer k',
          body: '{"as":"not-run","why":"x"}',
        },
      ])
    })

    it.each([
      [404, 2],
      [400, 2],
      [401, 3],
      [503, 3],
    ])('prints the message of a %i response, exit code %i', async (status, code) => {
      const io = new FakeIo(server(status, { message: 'Because.' }))
      expect(await io.run('calls', 'cancel', 'c', '--url', 'http://h:1')).toBe(code)
      expect(io.stderr).toContain('✗ Because.')
    })

    it('cancels as the caller', async () => {
      const { requests, fetch } = server(202, { state: 'running' })
      const environment = readEnvironment({ COLLET_API_KEY: 'mine' })
      const io = new FakeIo({ fetch }, { environment })
      expect(await io.run('calls', 'cancel', 'c 1', '--url', 'http://h:1')).toBe(0)
      expect(requests[0]).toMatchObject({ url: 'http://h:1/calls/c%201', authorization: 'Bearer mine' })
      expect(io.stdout).toBe('c 1 is running.\n')
    })

    it('reports that no server answers', async () => {
      const send: typeof fetch = async () => {
        throw new TypeError('fetch failed')
      }
      const io = new FakeIo({ fetch: send })
      expect(await io.run('calls', 'cancel', 'c', '--url', 'http://h:1')).toBe(3)
      expect(io.stderr).toContain('No answer from http://h:1')
    })
  })

  describe('collet journal', () => {
    const group = (writer: string, number: number): JournalGroup => ({
      writer,
      group: number,
      link: `link${number}`,
      atMs: 0,
      events: [{ type: 'writer.stopped', at: Date.UTC(2026, 0, 3) }],
    })

    it('reads page after page, with one position per chain, to the end', async () => {
      const asked: string[] = []
      const pages = [[group('a', 0), group('b', 0)], [group('a', 1)], []]
      const readJournal: Store['readJournal'] = (after) => {
        asked.push(after.map(({ writer, group: number }) => `${writer}${number}`).join())
        return pages.shift() ?? []
      }
      const io = new FakeIo(withStore({ readJournal }))
      expect(await io.run('journal', '--json', storeFlag())).toBe(0)
      expect(asked).toEqual(['', 'a0,b0', 'a1,b0'])
      expect(io.stdout.trim().split('\n')).toHaveLength(3)
      expect(JSON.parse(io.stdout.split('\n')[0] ?? '')).toMatchObject({
        writer: 'a',
        group: 0,
        type: 'writer.stopped',
      })
    })

    it('names the trace of each event of a call, also of a call that was written once with its outcome', async () => {
      const { record, tenant, principal, tool } = RECORD
      const common = { at: Date.UTC(2026, 0, 3), record, tenant, principal, tool, attempt: 1 }
      const pages = [[{ ...group('a', 0), events: [{ type: 'call.succeeded' as const, ...common }] }], []]
      const io = new FakeIo(withStore({ readJournal: () => pages.shift() ?? [], findByRecord: () => RECORD }))
      expect(await io.run('journal', '--json', storeFlag())).toBe(0)
      expect(JSON.parse(io.stdout)).toMatchObject({ type: 'call.succeeded', trace_id: 't' })
    })

    it('follows until it is stopped', async () => {
      const io = new FakeIo(
        withStore({
          readJournal: (after) => {
            if (after.length === 0) return [group('a', 0)]
            io.stop()
            return []
          },
        }),
      )
      expect(await io.run('journal', '--follow', storeFlag())).toBe(0)
      expect(io.stdout).toBe('2026-01-03T00:00:00.000Z writer.stopped\n')
    })
  })

  describe('collet journal verify', () => {
    const good: JournalVerification = {
      ok: true,
      groups: 2,
      events: 3,
      chains: 1,
      heads: [{ writer: 'w-1', group: 1, link: 'L_-k' }],
      rows: 3,
      badRows: [],
      cannotSee: ['a cut tail'],
    }

    it('prints in one line what was verified, and with --explain what it cannot detect', async () => {
      const io = new FakeIo({ verifyJournal: async () => good })
      expect(await io.run('journal', 'verify', storeFlag())).toBe(0)
      expect(io.stdout).toBe(
        '✓ The journal is intact: 3 events in 2 groups of 1 chain, and 3 rows of approvals, keys and pins. (--explain: what this cannot detect)\n',
      )
      const explained = new FakeIo({ verifyJournal: async () => good })
      expect(await explained.run('journal', 'verify', '--explain', storeFlag())).toBe(0)
      expect(explained.stdout).toContain('\n  This check cannot see: a cut tail.\n')
    })

    it('reports the first invalid group, exit code 1', async () => {
      const bad = {
        ...good,
        ok: false,
        firstBad: { writer: 'w-1', group: 7, reason: 'the group is missing' },
      }
      const io = new FakeIo({ verifyJournal: async () => bad })
      expect(await io.run('journal', 'verify', storeFlag())).toBe(1)
      expect(io.stdout).toContain('First bad group: 7 of writer w-1: the group is missing.')
      expect(await io.run('journal', 'heads', storeFlag())).toBe(1)
    })

    it('reports every invalid row that affects access, exit code 1', async () => {
      const badRows = [{ row: 'api_keys key-1', reason: 'was changed by someone without the key' }]
      const io = new FakeIo({ verifyJournal: async () => ({ ...good, ok: false, badRows }) })
      expect(await io.run('journal', 'verify', storeFlag())).toBe(1)
      expect(io.stdout).toContain('but 1 of the 3 rows of approvals, keys and pins are not.')
      expect(io.stdout).toContain('Row: api_keys key-1 was changed by someone without the key.')
    })

    it('accepts the heads that it printed', async () => {
      const heads = new FakeIo({ verifyJournal: async () => good })
      await heads.run('journal', 'heads', storeFlag())
      let kept: unknown
      const io = new FakeIo({
        verifyJournal: async (_, given) => {
          kept = given
          return good
        },
      })
      expect(await io.run('journal', 'verify', '--head', heads.stdout, storeFlag())).toBe(0)
      expect(kept).toEqual(good.heads)
      expect(await io.run('journal', 'verify', '--head', 'nonsense', storeFlag())).toBe(2)
    })
  })
})
