import { createSecretKey, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { fault } from '#kernel/base/errors'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { CallReply, CallRequest } from '#kernel/call/call'
import type { RunningGateway } from '#stages/open-gateway'
import { HopError } from '#stages/sessions/forward'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, FakeClock, openTestGateway } from '#testing/test-gateway'
import { FrameReader, FrameWriter, newTicket, writeTicket } from './frames.ts'
import { createReplicaHop, type ReplicaHop } from './hop.ts'
import type { HopListener } from './listener.ts'
import { HOP_PATH } from './messages.ts'

const SERVER = {
  ...{ host: '127.0.0.1', port: 0, publicUrl: undefined, bodyLimitBytes: 1_024 },
  ...{ allowedOrigins: [], maxConnections: 10 },
}
const REPLY: CallReply = { callId: 'c', outcome: { ok: true, valueJson: '1' }, replayed: false }

const closing: (() => unknown)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

interface Ends {
  readonly hop: ReplicaHop
  readonly listener: HopListener
  readonly holder: { readonly writer: string; readonly address: string }
  readonly key: Uint8Array
  readonly clock: FakeClock
}

/** Both ends of a hop in one process: forwarded calls arrive at `here`. */
async function openEnds(here: Partial<RunningGateway['here']>, heartbeatMs?: number): Promise<Ends> {
  const clock = new FakeClock()
  const store = openMemoryStore()
  const gateway = openTestGateway([], { store, clock })
  closing.push(
    () => store.close(),
    () => gateway.drain(0),
  )
  const hop = createReplicaHop({
    ...{ settings: SERVER, maxResultBytes: 1_024, clock, log: SILENT_LOGGER },
    ...(heartbeatMs === undefined ? {} : { heartbeatMs }),
  })
  const listener = await hop.open({ ...gateway, here: { ...gateway.here, ...here } })
  closing.push(listener.close)
  const key = Buffer.from(store.sign('replicas', 'hop'), 'base64url')
  return { hop, listener, holder: { writer: store.writer, address: listener.url }, key, clock }
}

/** The reply to an unknown peer: the status, or `cut` if the connection was closed. */
async function send({ listener }: Ends, authorization: string, body: Uint8Array): Promise<number | 'cut'> {
  try {
    const headers = { authorization }
    const response = await fetch(`${listener.url}${HOP_PATH}`, {
      method: 'POST',
      headers,
      body: Buffer.from(body),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 'cut'
  }
}

describe('a forwarded call', () => {
  it('arrives unchanged, with the credentials and the principal of its caller', async () => {
    let got: { principal: unknown; request: CallRequest } | undefined
    const { hop, holder } = await openEnds({
      async call(principal, request) {
        got = { principal, request }
        return REPLY
      },
    })
    const request = callRequest('List.Add@2.0.0', {
      input: { a: [1, 'zwei', null] },
      key: 'k',
      userId: 'ann',
      sessionId: 'ses_1',
      runId: 'run-7',
      tokens: new Map([['github', new Secret('token')]]),
      secrets: new Map([['pin', new Secret('1234')]]),
      freshId: 'fresh',
      waitMs: 50,
      protocol: 'mcp',
    })
    expect(
      await hop.call(
        holder,
        { ...ALICE, tools: ['List.Add'], toolsets: ['lists'], toolset: 'mine' },
        request,
      ),
    ).toEqual(REPLY)
    const { gone: _gone, tokens, secrets, ...plain } = got?.request ?? request
    const { tokens: _tokens, secrets: _secrets, ...sent } = request
    expect(plain).toEqual(sent)
    expect(got?.principal).toEqual({ ...ALICE, tools: ['List.Add'], toolsets: ['lists'], toolset: 'mine' })
    expect([tokens.get('github')?.reveal(), secrets.get('pin')?.reveal()]).toEqual(['token', '1234'])
  })

  it('forwards progress, questions and cancellation', async () => {
    const { hop, holder } = await openEnds({
      async call(_principal, request) {
        request.onProgress?.({ done: 1, total: 2, message: 'half' })
        const answer = await request.onElicit?.(
          { mode: 'form', message: 'Sure?', schema: { type: 'object' } },
          new AbortController().signal,
        )
        await new Promise((resolve) => request.leaving?.left?.addEventListener('abort', resolve))
        return { ...REPLY, callId: JSON.stringify(answer) }
      },
    })
    const left = new AbortController()
    const seen: unknown[] = []
    const reply = await hop.call(
      holder,
      ALICE,
      callRequest('List.Add', {
        onProgress: (progress) => seen.push(progress),
        onElicit: async (question) => {
          seen.push(question.mode)
          setTimeout(() => left.abort(), 20)
          return { action: 'accept', content: { yes: true } }
        },
        leaving: { left: left.signal },
      }),
    )
    expect(seen).toEqual([{ done: 1, total: 2, message: 'half' }, 'form'])
    expect(reply.callId).toBe('{"action":"accept","content":{"yes":true}}')
  })

  it('may outlast the silence limit, because the other replica sends heartbeats', async () => {
    const heartbeatMs = 100
    const { hop, holder } = await openEnds(
      {
        async call() {
          await new Promise((resolve) => setTimeout(resolve, 8 * heartbeatMs))
          return REPLY
        },
      },
      heartbeatMs,
    )
    expect(await hop.call(holder, ALICE, callRequest('List.Add'))).toEqual(REPLY)
  })

  it('fails if the other replica is silent', async () => {
    const { hop, holder } = await openEnds({}, 20)
    const mute = createServer().listen(0, '127.0.0.1')
    await once(mute, 'listening')
    closing.push(() => new Promise((done) => mute.close(done)))
    const taken: Socket[] = []
    mute.on('connection', (socket) => taken.push(socket))
    closing.push(() => taken.forEach((socket) => void socket.destroy()))
    const bound = mute.address()
    const port = typeof bound === 'object' ? bound?.port : 0
    const asked = hop.call({ ...holder, address: `http://127.0.0.1:${port}` }, ALICE, callRequest('List.Add'))
    await expect(asked).rejects.toMatchObject({ name: 'HopError', mayHaveArrived: true })
  })

  it('is closed if its body contains no request', async () => {
    const ends = await openEnds({})
    const { key, clock, holder } = ends
    const ticket = newTicket(holder.writer, clock.nowMs())
    expect(await send(ends, writeTicket(createSecretKey(key), ticket), new Uint8Array(3))).toBe('cut')
  })

  it('returns the refusal of the other replica with its message', async () => {
    const { hop, holder } = await openEnds({
      closeSession: () => Promise.reject(fault('not_ready', 'Not now.', { retryAfterMs: 700 })),
    })
    await expect(hop.closeSession(holder, ALICE, 'ses_1')).rejects.toMatchObject({
      code: 'not_ready',
      message: 'Not now.',
      retryAfterMs: 700,
    })
  })

  it('is known not to have begun if it did not arrive, but not if its connection broke', async () => {
    const { hop, holder } = await openEnds({ call: () => new Promise(() => undefined) })
    const refused = hop.call({ ...holder, address: 'http://127.0.0.1:1' }, ALICE, callRequest('List.Add'))
    await expect(refused).rejects.toMatchObject({ name: 'HopError', mayHaveArrived: false })
    const nowhere = hop.call({ ...holder, address: undefined }, ALICE, callRequest('List.Add'))
    await expect(nowhere).rejects.toMatchObject({ mayHaveArrived: false })
    const elsewhere = hop.call({ ...holder, writer: 'another' }, ALICE, callRequest('List.Add'))
    await expect(elsewhere).rejects.toMatchObject({ mayHaveArrived: false })
    const wire = await openWire(new URL(holder.address).port)
    const cut = hop.call({ ...holder, address: wire.url }, ALICE, callRequest('List.Add'))
    await wire.carried
    wire.cut()
    const error = await cut.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(HopError)
    expect(error).toMatchObject({ mayHaveArrived: true })
  })
})

describe('the listener for other replicas', () => {
  const first = JSON.stringify({ kind: 'close', principal: ALICE, sessionId: 'ses_1' })

  it('accepts a ticket once, while it is valid, for this listener and with the key', async () => {
    let closed = 0
    const ends = await openEnds({
      closeSession: async () => {
        closed += 1
        return true
      },
    })
    const key = createSecretKey(ends.key)
    const wrongKey = createSecretKey(randomBytes(32))
    const { writer } = ends.holder
    const nowMs = ends.clock.nowMs()
    const tryTicket = (ticket: ReturnType<typeof newTicket>, by = key) =>
      send(ends, writeTicket(by, ticket), new FrameWriter(by, ticket, 'there').write(first))
    const good = newTicket(writer, nowMs)
    expect(await tryTicket(good)).toBe(200)
    expect(await tryTicket(good)).toBe(404)
    expect(await tryTicket(newTicket(writer, nowMs - 31_000))).toBe(404)
    expect(await tryTicket(newTicket(writer, nowMs + 31_000))).toBe(404)
    expect(await tryTicket(newTicket('another', nowMs))).toBe(404)
    expect(await tryTicket(newTicket(writer, nowMs), wrongKey)).toBe(404)
    for (const header of ['', 'Bearer x', 'Collet a b c d', `Collet ${writer} ${nowMs} n `])
      expect(await send(ends, header, new Uint8Array())).toBe(404)
    expect(closed).toBe(1)
    // A used ticket is remembered for longer than it is valid.
    ends.clock.advance(29_000)
    expect(await tryTicket(good)).toBe(404)
    ends.clock.advance(40_000)
    expect(await tryTicket(good)).toBe(404)
    expect(closed).toBe(1)
  })

  it('ignores a body that was changed, taken from another ticket or reflected', async () => {
    let closed = 0
    const ends = await openEnds({
      closeSession: async () => {
        closed += 1
        return true
      },
    })
    const key = createSecretKey(ends.key)
    const ticketed = (body: (ticket: ReturnType<typeof newTicket>) => Uint8Array) => {
      const ticket = newTicket(ends.holder.writer, ends.clock.nowMs())
      return send(ends, writeTicket(key, ticket), body(ticket))
    }
    const other = newTicket(ends.holder.writer, ends.clock.nowMs())
    const changed = await ticketed((ticket) => {
      const frame = new FrameWriter(key, ticket, 'there').write(first)
      frame.writeUInt8(frame.readUInt8(20) ^ 1, 20)
      return frame
    })
    const moved = await ticketed(() => new FrameWriter(key, other, 'there').write(first))
    const back = await ticketed((ticket) => new FrameWriter(key, ticket, 'back').write(first))
    const second = await ticketed((ticket) => {
      const writer = new FrameWriter(key, ticket, 'there')
      writer.write(first)
      return writer.write(first)
    })
    const endless = await ticketed(() => Buffer.from([255, 255, 255, 255, 0, 0]))
    expect([changed, moved, back, second, endless]).toEqual(['cut', 'cut', 'cut', 'cut', 'cut'])
    expect(closed).toBe(0)
  })

  it('reads frames from chunks of any size', () => {
    const key = createSecretKey(randomBytes(32))
    const ticket = newTicket('w', 1)
    const writer = new FrameWriter(key, ticket, 'there')
    const bytes = Buffer.concat(['one', '', 'drei ü'].map((text) => writer.write(text)))
    for (const size of [1, 3, 7, 64, bytes.length]) {
      const reader = new FrameReader(key, ticket, 'there', 1_000)
      const texts: string[] = []
      for (let at = 0; at < bytes.length; at += size)
        texts.push(...reader.read(bytes.subarray(at, at + size)))
      expect(texts).toEqual(['one', '', 'drei ü'])
    }
  })
})

/** A proxy to a local port whose connections can be broken. */
async function openWire(port: string): Promise<{ url: string; carried: Promise<void>; cut(): void }> {
  const sockets: Socket[] = []
  const { promise: carried, resolve } = Promise.withResolvers<void>()
  const server: Server = createServer((near) => {
    const far = connect(Number(port), '127.0.0.1')
    sockets.push(near, far)
    near.pipe(far).pipe(near)
    near.on('error', () => undefined)
    far.on('error', () => undefined)
    far.once('data', () => resolve())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => new Promise((done) => server.close(done)))
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('it listens on a port')
  return {
    url: `http://127.0.0.1:${bound.port}`,
    carried,
    cut: () => {
      for (const one of sockets) one.destroy()
    },
  }
}
