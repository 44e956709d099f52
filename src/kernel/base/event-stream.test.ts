import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventParser, EventTooLong, type StreamEvent } from './event-stream.ts'

function parse(pieces: readonly string[], maxLength = 1_000_000): readonly StreamEvent[] {
  const parser = new EventParser(maxLength)
  return pieces.flatMap((piece) => parser.read(piece))
}

/** Splits a text at these positions. */
function cut(text: string, positions: readonly number[]): readonly string[] {
  const at = [...new Set(positions.map((position) => position % (text.length + 1)))].sort((a, b) => a - b)
  return [...at, text.length].map((end, index) => text.slice(index === 0 ? 0 : at[index - 1], end))
}

describe('OTS-51: the event parser', () => {
  it.each<[string, string, readonly StreamEvent[]]>([
    ['the form servers write', 'event:data\ndata:{"a":1}\n\n', [{ event: 'data', data: '{"a":1}' }]],
    ['a space after the colon', 'event: data\ndata: x\n\n', [{ event: 'data', data: 'x' }]],
    ['only one space is dropped', 'data:  x\n\n', [{ event: 'message', data: ' x' }]],
    ['CRLF', 'event:e\r\ndata:x\r\n\r\n', [{ event: 'e', data: 'x' }]],
    ['CR', 'event:e\rdata:x\r\r', [{ event: 'e', data: 'x' }]],
    [
      'an id and a retry between',
      'event:e\nid:7\nretry:10\ndata:x\n\n',
      [{ event: 'e', data: 'x', id: '7' }],
    ],
    ['comments', ':hello\n\n: more\ndata:x\n\n', [{ event: 'message', data: 'x' }]],
    ['several lines of data', 'data:a\ndata\ndata:b\n\n', [{ event: 'message', data: 'a\n\nb' }]],
    ['an event without data is none', 'event:e\n\ndata:x\n\n', [{ event: 'message', data: 'x' }]],
    ['an event that breaks off is none', 'data:x\n\ndata:y\n', [{ event: 'message', data: 'x' }]],
    ['a byte order mark', '\ufeffdata:x\n\n', [{ event: 'message', data: 'x' }]],
    ['an unknown field', 'colour:red\ndata:x\n\n', [{ event: 'message', data: 'x' }]],
  ])('parses %s', (_what, text, events) => {
    expect(parse([text])).toEqual(events)
    expect(parse(text.split(''))).toEqual(events)
  })

  it('keeps the last event id and the last retry time of the server', () => {
    const parser = new EventParser(100)
    parser.read('id: e1\nretry: 1500\ndata: x\n\ndata: y\n\nid: unfinished\nretry: soon\n')
    expect([parser.lastEventId, parser.retryMs]).toEqual(['e1', 1500])
    parser.read('\nid: e\u00002\n\n')
    expect(parser.lastEventId).toBe('unfinished')
  })

  it('returns the same events for any split of the text', () => {
    const line = fc.oneof(
      fc.constantFrom('', 'event:data', 'event: x', 'id:1', ':c', 'data'),
      fc.string().map((text) => `data:${text.replaceAll(/[\r\n\ufeff]/g, '')}`),
    )
    const lines = fc.array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')))
    fc.assert(
      fc.property(lines, fc.array(fc.nat()), (written, positions) => {
        const text = written.map(([words, end]) => words + end).join('')
        expect(parse(cut(text, positions))).toEqual(parse([text]))
      }),
    )
  })

  it('buffers no more than the limit, and releases returned events', () => {
    expect(
      parse(
        Array.from({ length: 100 }, () => 'data:12345\n\n'),
        20,
      ),
    ).toHaveLength(100)
    expect(parse([`${': comment\n'.repeat(100)}data:x\n\n`], 20)).toHaveLength(1)
    expect(() => parse(['data:', 'x'.repeat(10), 'x'.repeat(10)], 20)).toThrow(EventTooLong)
    expect(() =>
      parse(
        Array.from({ length: 10 }, () => 'data:1\n'),
        20,
      ),
    ).toThrow(EventTooLong)
  })
})
