import { spawn } from 'node:child_process'
import { createSecretKey, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as openRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { CallReply } from '#kernel/call/call'
import {
  FrameReader,
  FrameWriter,
  newTicket,
  readTicket,
  type Ticket,
  writeTicket,
} from '#server/replicas/frames'
import { openHopListener } from '#server/replicas/listener'
import { HOP_PATH } from '#server/replicas/messages'
import { mcpMessage } from './lanes.ts'
import { anyText, anyValue, bodyText, changed, Random } from './random-input.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** As in fuzz.test.ts. */
const CASES = Number(process.env.COLLET_FUZZ_CASES ?? 250)
const SEED = Number(process.env.COLLET_FUZZ_SEED ?? 20_261_116)
const HOURS_MS = 4 * 3_600_000
const HANG_MS = 30_000

it(`MCP on stdio survives arbitrary input, seed ${SEED}`, { timeout: HOURS_MS }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-fuzz-'))
  const child = startStdio(folder)
  const ended = once(child, 'exit')
  const pending = new Map<unknown, () => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { id }: { readonly id?: unknown } = JSON.parse(line)
    pending.get(id)?.()
  })
  let [errors, answered] = ['', 0]
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  /** An answer to this proves that everything before it was read. */
  const ping = async (id: string): Promise<void> => {
    const { promise, resolve: answer } = Promise.withResolvers<void>()
    pending.set(id, answer)
    child.stdin.write(`\n{"jsonrpc":"2.0","id":"${id}","method":"ping"}\n`)
    const late = setTimeout(() => child.kill('SIGKILL'), HANG_MS)
    await Promise.race([promise, ended.then(() => expect.fail(`ended, or hung, before ${id}: ${errors}`))])
    clearTimeout(late)
    answered += 1
  }
  const random = new Random(SEED + 1)
  for (let sent = 0; sent < CASES; sent += 50) {
    for (let line = 0; line < 50; line += 1) child.stdin.write(lineOf(random))
    await ping(`ping ${sent}`)
  }
  child.stdin.end()
  const [code] = await ended
  rmSync(folder, { recursive: true })
  expect({ code, answered }).toEqual({ code: 0, answered: CASES / 50 })
  expect(errors).not.toMatch(/unexpected fault|Nobody caught|unhandled|stray|RangeError|heap out of memory/i)
})

function startStdio(folder: string) {
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { tool } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
     const input = { type: 'object', properties: { text: { type: 'string', description: 'A text.' } } } as const
     export default { tools: ['Say', 'Keep'].map((name) =>
       tool({ id: \`Echo.\${name}@1.0.0\`, description: name, input, output: {}, policy: { safetyTier: name === 'Say' ? 'pure' : 'write' }, run: (given) => given })) }`,
  )
  const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
  return spawn(process.execPath, [...flags, join(ROOT, 'src/cli/main.ts'), 'mcp'], { cwd: folder })
}

function lineOf(random: Random): Buffer {
  const { method, params } = mcpMessage(random)
  const message = { jsonrpc: '2.0', id: random.below(1_000), method, params }
  const way = random.below(20)
  if (way === 0) return Buffer.from(Array.from({ length: 60 }, () => random.below(256)))
  const text =
    way === 1 ? anyText(random) : bodyText(random, changed(random, message, random.one([0.01, 0.15])))
  return Buffer.from(`${text}${way === 2 ? '\r\n' : '\n'}`, way === 3 ? 'latin1' : 'utf8')
}

const REPLY: CallReply = { callId: 'c', outcome: { ok: true, valueJson: '1' }, replayed: false }
const WRITER = 'writer-of-the-fuzzer'

it(`replicas that get arbitrary input end the exchange, and accept the next one, seed ${SEED}`, {
  timeout: HOURS_MS,
}, async () => {
  const key = createSecretKey(randomBytes(32))
  const listener = await openHopListener({
    gateway: { here: { call: async () => REPLY, closeSession: async () => true }, store: { writer: WRITER } },
    key: () => key,
    ...{ host: '127.0.0.1', port: 0, heartbeatMs: 3_000, maxFrameBytes: 65_536, clock: SYSTEM_CLOCK },
    log: SILENT_LOGGER,
  })
  const sendFrame = (ticket: Ticket, body: Uint8Array) => talk(listener.url, writeTicket(key, ticket), body)
  const random = new Random(SEED + 2)
  try {
    await fc.assert(
      fc.asyncProperty(anyFrames, async (parts) => {
        const ticket = newTicket(WRITER, Date.now())
        const writer = new FrameWriter(key, ticket, 'there')
        const body = parts.map((part) => (typeof part === 'string' ? writer.write(part) : part))
        await sendFrame(ticket, Buffer.concat(body))
        await talk(
          listener.url,
          random.isLucky(0.5) ? `Collet ${headerText(random)}` : headerText(random),
          Buffer.concat(body),
        )
      }),
      { numRuns: Math.ceil(CASES / 2), seed: SEED },
    )
    const ticket = newTicket(WRITER, Date.now())
    const request = { tokens: [], secrets: [], wantsProgress: false, canBeAsked: false, mayLeave: false }
    const principal = { id: 'key:a', tenant: 'default', scopes: [] }
    const asked = new FrameWriter(key, ticket, 'there').write(
      JSON.stringify({ kind: 'call', principal, request }),
    )
    const answer = await sendFrame(ticket, asked)
    expect(new FrameReader(key, ticket, 'back', 65_536).read(answer)).toEqual([
      JSON.stringify({ kind: 'reply', reply: REPLY }),
    ])
  } finally {
    await listener.close()
  }
})

it('reading a ticket from arbitrary text never throws', () => {
  const key = createSecretKey(randomBytes(32))
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      expect(readTicket(key, text)).toBeUndefined()
      expect(readTicket(key, `Collet ${text}`)).toBeUndefined()
    }),
    { numRuns: CASES },
  )
})

/** Bytes that were not sealed, and sealed texts that no replica would send. */
const anyFrames = fc.array(
  fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.string({ unit: 'binary' }),
    fc.json(),
    fc
      .record({
        kind: fc.constantFrom('call', 'close', 'answer', 'gone', 'left', 'x'),
        principal: fc.oneof(fc.jsonValue(), fc.constant({ id: 'key:a', tenant: 't', scopes: [] })),
        request: fc.jsonValue(),
        sessionId: fc.jsonValue(),
        id: fc.jsonValue(),
        answer: fc.jsonValue(),
      })
      .map((message) => JSON.stringify(message)),
  ),
  { maxLength: 4 },
)

function headerText(random: Random): string {
  const text = random.isLucky(0.5) ? anyText(random) : `${JSON.stringify(anyValue(random))}`
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 1_000)
}

/** Everything received until the other side ends the connection, cleanly or not. */
function talk(url: string, authorization: string, body: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const done = (): void => resolve(Buffer.concat(chunks))
    const asked = openRequest(new URL(HOP_PATH, url), {
      method: 'POST',
      agent: false,
      headers: { authorization },
    })
    asked.setTimeout(HANG_MS, () => reject(new Error(`no end within ${HANG_MS} ms`)))
    asked.on('error', done)
    asked.on('response', (response) => {
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', done).on('close', done)
    })
    asked.end(body)
  })
}
