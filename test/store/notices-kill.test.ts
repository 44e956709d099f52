import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { NOTICE_KINDS } from '#kernel/journal/notices'
import { openStore } from '#store/stores'
import { createDatabase, query } from './databases.ts'

const masterKey = randomBytes(32)
const LIMIT = { timeout: 45_000, interval: 50 }

/** Answers as configured, and keeps the requests. */
class Receiver {
  readonly server: Server
  readonly came: { readonly id: string; readonly type: string }[] = []
  answer: (response: ServerResponse) => void = (response) => void response.writeHead(204).end()

  constructor() {
    this.server = createServer(async (request, response) => {
      const body = await text(request)
      this.came.push({ id: String(request.headers['collet-notice-id']), type: JSON.parse(body).type })
      this.answer(response)
    }).listen(0, '127.0.0.1')
  }

  get url(): string {
    const address = this.server.address()
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`
  }

  kinds(): readonly string[] {
    return [...new Set(this.came.map(({ type }) => type))].sort()
  }
}

describe.each(['sqlite', 'postgres'] as const)('notices on %s', (engine) => {
  let folder = ''
  let url = ''
  let receiver: Receiver
  const children = new Set<ChildProcess>()

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-notices-'))
    url = engine === 'sqlite' ? `sqlite:${join(folder, 'collet.db')}` : await createDatabase('notices')
    receiver = new Receiver()
    await once(receiver.server, 'listening')
  })
  afterEach(async () => {
    for (const child of children) await kill(child)
    receiver.server.close()
    receiver.server.closeAllConnections()
    rmSync(folder, { recursive: true })
  })

  async function startReplica(...act: readonly string[]): Promise<ChildProcess> {
    const file = fileURLToPath(new URL('notices-process.ts', import.meta.url))
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
    const args = [file, url, masterKey.toString('base64'), receiver.url, ...act]
    const child = spawn(process.execPath, [...flags, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.add(child)
    await once(child.stdout ?? child, 'data')
    return child
  }

  async function kill(child: ChildProcess): Promise<void> {
    children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  async function openHere() {
    const store = await openStore(url, { dataFolder: folder, masterKey, mode: 'server' })
    store.notices.listen([{ target: 'ops', kinds: new Set(NOTICE_KINDS) }])
    return store
  }

  it('outlive the process that was killed while delivering them, and its interrupted calls cause notices too', async () => {
    receiver.answer = () => undefined
    const first = await startReplica('act')
    await vi.waitUntil(() => receiver.came.length >= 4, LIMIT)
    await kill(first)
    const before = new Map(receiver.came.map(({ id, type }) => [type, id]))
    expect([...before.keys()].sort()).toEqual(['approval.requested', 'budget.100', 'budget.80', 'pin.held'])
    receiver.came.length = 0
    let refusals = 2
    receiver.answer = (response) => {
      refusals -= 1
      response.writeHead(refusals >= 0 ? 500 : 204).end()
    }
    // No process waits for leases here.
    if (engine === 'postgres') await query(url, 'UPDATE writers SET lease_until = 1')
    const store = await openHere()
    try {
      expect(await store.recover(Date.now())).toMatchObject({ ambiguous: 1 })
      for (const { target } of await store.notices.listeners())
        await store.notices.take(target, Date.now() + 60_000, -60_000, 100)
      await startReplica()
      await vi.waitUntil(async () => (await store.notices.listeners())[0]?.delivered === 5, LIMIT)
      expect(receiver.kinds()).toEqual([...before.keys(), 'call.ambiguous'].sort())
      for (const { id, type } of receiver.came) if (before.has(type)) expect(id).toBe(before.get(type))
      expect(receiver.came).toHaveLength(7)
      expect(await store.recover(Date.now())).toMatchObject({ ambiguous: 0 })
    } finally {
      await store.close()
    }
  })

  it('are delivered once by two replicas that poll at the same time', async () => {
    await Promise.all([startReplica(), startReplica()])
    const store = await openHere()
    try {
      const changes = Array.from({ length: 40 }, (_, nth) => ({
        ...{ source: `S${nth}`, seen: 0, pins: [], changesServed: false },
        events: [{ type: 'pin.held' as const, at: Date.now(), source: `S${nth}`, tool: 'S.T', hash: 'h' }],
      }))
      await Promise.all(changes.map((change) => store.pins.write(change)))
      await vi.waitUntil(async () => (await store.notices.listeners())[0]?.delivered === 40, LIMIT)
      expect(receiver.came).toHaveLength(40)
      expect(new Set(receiver.came.map(({ id }) => id)).size).toBe(40)
    } finally {
      await store.close()
    }
  })
})
