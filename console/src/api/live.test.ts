import { describe, expect, it } from 'vitest'
import { type LiveEvent, readEvents } from './live.ts'

/** A stream in chunks that split events. */
function streamOf(pieces: readonly (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces)
        controller.enqueue(typeof piece === 'string' ? encoder.encode(piece) : piece)
      controller.close()
    },
  })
}

async function read(...pieces: readonly (string | Uint8Array)[]): Promise<readonly LiveEvent[]> {
  const events: LiveEvent[] = []
  for await (const event of readEvents(streamOf(pieces))) events.push(event)
  return events
}

describe('server-sent events', () => {
  it('are parsed wherever the stream is split', async () => {
    const whole = 'id: 7\nevent: call\ndata: {"a":"ö"}\n\n:still here\n\ndata: one\ndata: two\n\n'
    const bytes = new TextEncoder().encode(whole)
    const expected = [
      { id: '7', type: 'call', data: '{"a":"ö"}' },
      { id: '', type: 'message', data: 'one\ntwo' },
    ]
    for (let cut = 0; cut <= bytes.length; cut++)
      expect(await read(bytes.slice(0, cut), bytes.slice(cut)), `cut at ${cut}`).toEqual(expected)
  })

  it('may end lines with LF, CR LF or CR', async () => {
    const expected = [{ id: '1', type: 'message', data: 'a' }]
    expect(await read('id: 1\r\ndata: a\r\n\r\n')).toEqual(expected)
    expect(await read('id:1\rdata:a\r\r')).toEqual(expected)
    expect(await read('id: 1\r\nda', 'ta: a\r\n\r', '\n')).toEqual(expected)
  })

  it('omit an unfinished event', async () => {
    expect(await read('data: a\n\ndata: half')).toEqual([{ id: '', type: 'message', data: 'a' }])
  })
})
