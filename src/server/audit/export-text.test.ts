import { describe, expect, it } from 'vitest'
import { csvCell, type ExportRow, exportText } from './export-text.ts'

async function* batchesOf(...batches: readonly (readonly ExportRow[])[]) {
  yield* batches
}

async function written(format: 'csv' | 'jsonl', ...batches: readonly (readonly ExportRow[])[]) {
  let text = ''
  for await (const piece of exportText(format, { columns: ['a', 'b'], batches: batchesOf(...batches) }))
    text += piece
  return text
}

describe('exported text', () => {
  it('has a header line and CRLF in CSV, also without rows', async () => {
    expect(await written('csv')).toBe('a,b\r\n')
    expect(await written('csv', [{ a: 1, b: null }], [], [{ a: true, b: 'x' }])).toBe(
      'a,b\r\n1,\r\ntrue,x\r\n',
    )
  })
  it('quotes cells that contain commas, quotes, line breaks or outer spaces', () => {
    expect(csvCell('a,b')).toBe('"a,b"')
    expect(csvCell('say "hi"')).toBe('"say ""hi"""')
    expect(csvCell('two\nlines')).toBe('"two\nlines"')
    expect(csvCell(' x')).toBe('" x"')
    expect(csvCell({ a: ['b'] })).toBe('"{""a"":[""b""]}"')
  })
  it('keeps a spreadsheet from running text as a formula', () => {
    for (const text of ['=1+1', '+1', '-1', '@SUM(A1)', '  =1', '＝1', '\t1', '\r=1', '\u00a0=1'])
      expect(csvCell(text), JSON.stringify(text)).toMatch(/^"?'/)
    expect(csvCell('=HYPERLINK("http://a.example","x")')).toBe(`"'=HYPERLINK(""http://a.example"",""x"")"`)
    expect(csvCell(-1)).toBe('-1')
    expect(csvCell('a=1')).toBe('a=1')
  })
  it('has one object with every column in each line of JSON', async () => {
    expect(await written('jsonl', [{ b: '=1' }, { a: 'x\ny', b: [1], c: 'not a column' }])).toBe(
      '{"a":null,"b":"=1"}\n{"a":"x\\ny","b":[1]}\n',
    )
  })
  it('is split into pieces of bounded size', async () => {
    const rows = Array.from({ length: 2_000 }, (_, n) => ({ a: n, b: 'x'.repeat(500) }))
    const lengths: number[] = []
    for await (const piece of exportText('csv', { columns: ['a', 'b'], batches: batchesOf(rows) }))
      lengths.push(piece.length)
    expect(lengths.length).toBeGreaterThan(10)
    expect(Math.max(...lengths)).toBeLessThan(70_000)
  })
})
