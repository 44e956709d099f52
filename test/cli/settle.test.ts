import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleCall } from '../contracts/samples.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })

describe('collet calls settle on a real store', () => {
  let folder = ''
  let store: Store
  const call = sampleCall({ tool: 'Doorbell.Ring@0.1.0' })

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-settle-'))
    store = openStore()
  })
  afterEach(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  const openStore = () => openSqliteStore({ path: join(folder, 'collet.db'), masterKey })

  /** A call whose writer is gone, as after a crash: closing the store releases the lock and ends no call. */
  async function cutCall(): Promise<void> {
    await store.claim(call)
    await store.close()
    const database = new DatabaseSync(join(folder, 'collet.db'))
    database.exec('UPDATE writers SET ended_at = NULL')
    database.close()
    store = openStore()
  }

  function settle(...options: string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    const argv = ['calls', 'settle', call.record, '--why', 'x', '--store', 'sqlite:collet.db', ...options]
    return { io, code: io.run(...argv) }
  }

  function writeConfig(): void {
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `export default { tools: [{ [Symbol.for('collet.tool')]: true, id: 'Doorbell.Ring@0.1.0', description: 'Rings.',
         input: { type: 'object' }, output: { type: 'boolean' }, run: () => true }] }`,
    )
  }

  it('journals nothing if there is no such call', async () => {
    const before = store.readJournal([], 10)
    const { io, code } = settle('--as', 'not-run')
    expect(await code).toBe(2)
    expect(io.stderr).toContain('There is no call whose id is "record-1"')
    expect(store.readJournal([], 10)).toEqual(before)
  })

  it('reports that a call runs, and that the next start recovers a call of a dead process', async () => {
    await store.claim(call)
    const running = settle('--as', 'not-run')
    expect(await running.code).toBe(2)
    expect(running.io.stderr).toContain('still running')
    await store.close()
    store = openStore()
    const dead = settle('--as', 'not-run')
    expect(await dead.code).toBe(2)
    expect(dead.io.stderr).toContain('Start the server once to recover the call')
  })

  it('refuses a value that does not match the tool, unless forced', async () => {
    await cutCall()
    await store.recover(Date.now())
    writeConfig()
    const wrong = settle('--as', 'succeeded', '--value', '"rang"')
    expect(await wrong.code).toBe(2)
    expect(wrong.io.stderr).toContain('! --value: ')
    expect(wrong.io.stderr).toContain('does not fit the output schema of Doorbell.Ring@0.1.0')
    expect((await store.findByRecord(call.record))?.state).toBe('ambiguous')
    expect(await settle('--as', 'succeeded', '--value', '"rang"', '--force').code).toBe(0)
    expect((await store.findByRecord(call.record))?.state).toBe('succeeded')
  })

  it('accepts any value if no config has the tool, and settles once', async () => {
    await cutCall()
    await store.recover(Date.now())
    expect(await settle('--as', 'succeeded', '--value', '"rang"').code).toBe(0)
    writeConfig()
    const again = settle('--as', 'succeeded', '--value', 'true')
    expect(await again.code).toBe(2)
    expect(again.io.stderr).toContain('not ambiguous, or has already been settled')
  })
})
