import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { RunningGateway } from '#stages/open-gateway'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from '#testing/test-gateway'
import { Notebook } from './services/notebook.ts'
import { run } from './tools/notebook.ts'

const TOOL_ID = 'openwop:Notebook.Run'
const ENDLESS = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n'

let gateway: RunningGateway

beforeAll(() => {
  const tools = requireTools([run]).map((tool) => ({ ...tool, policy: { ...tool.policy, timeoutMs: 2_000 } }))
  gateway = openTestGateway(tools)
})

afterAll(() => gateway.drain(0))

async function ask(sql: string, sessionId?: string, parameters?: readonly (string | number | null)[]) {
  const input = { sql, ...(parameters === undefined ? {} : { parameters: [...parameters] }) }
  return await gateway.call(
    ALICE,
    callRequest('Notebook.Run', { input, ...(sessionId === undefined ? {} : { sessionId }) }),
  )
}

async function rowsOf(sql: string, sessionId: string): Promise<unknown> {
  const { outcome } = await ask(sql, sessionId)
  return outcome.ok ? JSON.parse(outcome.valueJson).rows : outcome.error.message
}

async function withSession<T>(use: (sessionId: string) => Promise<T>): Promise<T> {
  const { sessionId } = await gateway.openSession(ALICE, { toolId: TOOL_ID })
  try {
    return await use(sessionId)
  } finally {
    await gateway.closeSession(ALICE, sessionId)
  }
}

describe('Notebook.Run', () => {
  it('keeps tables within a session, and no longer', async () => {
    await withSession(async (session) => {
      await ask('CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)', session)
      const written = await ask('INSERT INTO note (text) VALUES (?), (?)', session, ['one', null])
      expect(gist(written)).toBe('ok {"columns":[],"rows":[],"changes":2}')
      expect(await rowsOf('SELECT id, text FROM note ORDER BY id', session)).toEqual([
        [1, 'one'],
        [2, null],
      ])
      expect(errorOf(await ask('SELECT * FROM note')).message).toContain('no such table')
    })
    await withSession(async (session) => {
      expect(await rowsOf('SELECT count(*) FROM sqlite_master', session)).toEqual([[0]])
    })
  })

  it('keeps sessions apart', async () => {
    await withSession((one) =>
      withSession(async (two) => {
        await ask('CREATE TABLE mine (x)', one)
        expect(await rowsOf('SELECT name FROM sqlite_master', one)).toEqual([['mine']])
        expect(await rowsOf('SELECT name FROM sqlite_master', two)).toEqual([])
      }),
    )
  })

  it('cannot reach files, settings or extensions', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-notebook-'))
    const file = join(folder, 'out.db')
    await withSession(async (session) => {
      for (const sql of [
        `ATTACH '${file}' AS other`,
        `ATTACH 'file:${file}?mode=rwc' AS other`,
        `VACUUM INTO '${file}'`,
        'VACUUM',
        'PRAGMA database_list',
        'PRAGMA max_page_count = 4294967294',
        'SELECT * FROM pragma_database_list',
        `SELECT load_extension('${file}')`,
        `SELECT LOAD_EXTENSION('${file}', 'entry')`,
        `SELECT readfile('/etc/passwd')`,
        `CREATE VIRTUAL TABLE t USING csv(filename='/etc/passwd')`,
      ]) {
        const { code, message } = errorOf(await ask(sql, session))
        expect([sql, code, message]).toEqual([
          sql,
          'tool_failed',
          expect.stringMatching(/not authorized|denied|no such/),
        ])
      }
      expect(await rowsOf('SELECT 1', session)).toEqual([[1]])
    })
    expect(existsSync(file)).toBe(false)
    rmSync(folder, { recursive: true })
  })

  it('ends an endless statement by timeout, and serves others meanwhile', async () => {
    const { sessionId } = await gateway.openSession(ALICE, { toolId: TOOL_ID })
    const endless = ask(ENDLESS, sessionId)
    expect(gist(await ask('SELECT 1 AS one'))).toBe('ok {"columns":["one"],"rows":[[1]],"changes":0}')
    expect(gist(await endless)).toBe('tool_timeout')
    expect(errorOf(await ask('SELECT 1', sessionId)).message).toContain('Open another session')
    expect(await gateway.closeSession(ALICE, sessionId)).toBe(true)
  })

  it('leaves nothing running behind an endless statement', async () => {
    const notebook = new Notebook()
    const cut = new AbortController()
    const endless = notebook.ask({ sql: ENDLESS, parameters: [] }, cut.signal)
    cut.abort()
    expect((await endless).ok).toBe(false)
    // Resolves only when the process is gone.
    await notebook.close()
  })

  it('returns at most 1000 rows, and no value over a million bytes', async () => {
    await withSession(async (session) => {
      const many = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n'
      const rows = await rowsOf(many, session)
      expect(rows).toHaveLength(1_000)
      expect(errorOf(await ask('SELECT randomblob(2000000)', session)).message).toContain('too big')
      expect(errorOf(await ask('SELECT hex(zeroblob(900000000))', session)).message).toContain('too big')
    })
  })

  it('returns integers and bytes that JSON cannot represent as text', async () => {
    await withSession(async (session) => {
      expect(await rowsOf("SELECT 9007199254740993, 7, 1.5, x'00ff', 'é', NULL", session)).toEqual([
        ['9007199254740993', 7, 1.5, 'AP8=', 'é', null],
      ])
    })
  })

  it('reports an error in a statement', async () => {
    expect(errorOf(await ask('SELEC 1')).message).toContain('syntax error')
  })
})
