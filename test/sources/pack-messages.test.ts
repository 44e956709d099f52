import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type ChannelBounds, PackChannel } from '#sources/pack/channel'
import { parseMessage } from '#sources/pack/messages'
import { PROCESS_BOUNDS } from '#sources/pack/process'
import { longestTurn } from '../longest-turn.ts'

/** Raw lines that a process may send; none of them may affect other processes. */
const LINES = [
  'null',
  '1',
  '"text"',
  'no JSON',
  '\u0000\u0001\u0002',
  '[]',
  '{}',
  '{"type":"nobody"}',
  '{"type":"log","id":1,"level":"nope","fields":{},"message":"x"}',
  '{"type":"log","id":1,"level":"constructor","fields":{},"message":"x"}',
  '{"type":"progress"}',
  '{"type":"progress","id":1,"done":"much"}',
  '{"type":"loaded","tools":7}',
  '{"type":"loaded","tools":[{"nativeName":"x"}],"warnings":[]}',
  '{"type":"ended","id":1}',
  '{"type":"ended","id":1,"end":{"ok":false,"error":{}}}',
  '{"type":"ask","id":1,"ask":1,"question":{"what":"fetch"}}',
  '{"type":"ask","id":1,"ask":1,"question":{"what":"elicit","question":{"mode":"toString"}}}',
  '{"cmd":"NODE_HANDLE","type":"nope"}',
  `{"type":"ended","id":1,"end":{"ok":true,"value":${'['.repeat(100_000)}`,
  `{"type":"ended","id":1,"end":{"ok":true,"value":[${'1,'.repeat(200_000)}1]}}`,
]

const BOUNDS: ChannelBounds = {
  maxLineBytes: 1_000_000,
  maxMessages: 1_000,
  maxBytes: 4_000_000,
  maxUnreadBytes: 1_000_000,
  json: { maxDepth: 272, maxValues: 100_100 },
}

/** Two ends of a pipe: one that a pack's process writes to, and one that the server reads. */
async function openPipe(bounds: Partial<ChannelBounds> = {}) {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  const accepted = once(server, 'connection')
  const pack = connect(port, '127.0.0.1').on('error', () => undefined)
  const [ours]: Socket[] = await accepted
  if (ours === undefined) return expect.fail('no message arrived')
  onTestFinished(() => {
    for (const socket of [pack, ours]) socket.destroy()
    server.close()
  })
  const received: unknown[] = []
  const broken = Promise.withResolvers<string>()
  const channel = new PackChannel(
    ours,
    { ...BOUNDS, ...bounds },
    { onMessage: (message) => received.push(message), onBroken: broken.resolve },
  )
  return { pack, ours, received, broken: broken.promise, channel }
}

describe('what a pack sends', () => {
  it('is a message if its question is marked as written by a third party', () => {
    const question = { mode: 'form', message: 'Which one?', schema: {}, untrusted: true }
    const message = { type: 'ask', id: 1, questionNo: 1, question: { what: 'elicit', question } }
    expect(parseMessage(message)).toEqual(message)
  })

  it.each(LINES.map((line) => [line.slice(0, 60), line]))('is not a message: %s', async (_title, line) => {
    const { pack, received, broken } = await openPipe()
    pack.end(`${line}\n{"type":"last"}\n`)
    const end = await Promise.race([broken, once(pack, 'close').then(() => 'heard')])
    if (end === 'heard') expect(parseMessage(received[0])).toBeUndefined()
    else expect(received).toEqual([])
  })

  it('is a message if its form is valid, whatever codes it has', () => {
    const error = { isToolError: true, code: 'approval_required', message: 'm', canRetry: false }
    const message = { type: 'ended', id: 1, end: { ok: false, error } }
    expect(parseMessage(message)).toEqual({
      ...message,
      end: { ok: false, error: { ...error, code: 'tool_failed' } },
    })
  })

  it('is cut at the maximum length of a message, even if its line never ends', async () => {
    const { pack, broken, received } = await openPipe({ maxLineBytes: 10_000 })
    for (let part = 0; part < 20; part += 1) pack.write('x'.repeat(1_000))
    expect(await broken).toContain('more than 10000 bytes')
    expect(received).toEqual([])
  })

  it('is read up to a number of messages per second; the rest waits in the sender', async () => {
    const { pack, ours, received } = await openPipe({ maxMessages: 50 })
    const paused = once(ours, 'pause')
    pack.write('{"type":"progress"}\n'.repeat(120))
    await paused
    expect(received).toHaveLength(50)
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(120)
  })

  it('is read up to a number of bytes per second, but one long message is read whole', async () => {
    const { pack, ours, received } = await openPipe({ maxBytes: 100_000 })
    const paused = once(ours, 'pause')
    const long = `${JSON.stringify('x'.repeat(200_000))}\n`
    pack.write(long + long)
    await paused
    expect(received).toHaveLength(1)
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(2)
  })

  it.each([
    ['small messages without end', `'{"type":"progress","id":1,"done":1}\\n'.repeat(20_000)`, 200],
    ['the longest texts', `JSON.stringify('x'.repeat(8_000_000)) + '\\n'`, 8],
    [
      'as many values as are allowed',
      `JSON.stringify(Array(99_000).fill({}).map((_, at) => at)) + '\\n'`,
      40,
    ],
    ['brackets', `'['.repeat(8_000_000) + '\\n'`, 1],
    ['a line that never ends', `'x'.repeat(1_000_000)`, 40],
  ])('never blocks the server for more than 100 ms: %s', async (_title, text, times) => {
    const server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0
    const accepted = once(server, 'connection')
    // From a separate process, so that the time to write them does not count for the server.
    const code = `const socket = require('node:net').connect(${port}, '127.0.0.1').on('error', () => process.exit())
      const text = ${text}
      for (let time = 0; time < ${times}; time += 1) socket.write(text)
      socket.end(() => process.exit())`
    const sender = spawn(process.execPath, ['-e', code], { stdio: 'ignore' })
    onTestFinished(() => {
      sender.kill('SIGKILL')
      server.close()
    })
    const [socket]: Socket[] = await accepted
    if (socket === undefined) return expect.fail('no message arrived')
    const mark = process.memoryUsage().rss
    let received = 0
    const longest = await longestTurn(async () => {
      const over = Promise.withResolvers<void>()
      new PackChannel(socket, PROCESS_BOUNDS, {
        onMessage: (message) => {
          parseMessage(message)
          received += 1
        },
        onBroken: () => over.resolve(),
      })
      socket.once('close', () => over.resolve())
      // A few seconds are enough, because the rest would wait in the sender.
      setTimeout(over.resolve, 3_000)
      await over.promise
    })
    socket.destroy()
    expect(longest).toBeLessThan(100)
    expect(received).toBeLessThanOrEqual(5_000)
    expect(process.memoryUsage().rss - mark).toBeLessThan(300 * 1024 * 1024)
  })

  it('limits the answers that a process does not read', async () => {
    const { pack, broken, channel } = await openPipe()
    pack.pause()
    for (let answer = 0; answer < 100; answer += 1) channel.send({ value: 'x'.repeat(200_000) })
    expect(await broken).toContain('does not read')
    expect(channel.send({ value: 'y'.repeat(100) }, 50)).toBe(false)
  })
})
