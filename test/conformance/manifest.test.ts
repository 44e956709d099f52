import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readSourceFiles } from '../source-files.ts'

const ledger = readFileSync(new URL('../../docs/specs/otc.md', import.meta.url), 'utf8')
const required = [...new Set([...ledger.matchAll(/^\| (OTC-\d+) \|/gm)].map(([, id = '']) => id))]

/** `it('title'`, `it.each(table)('title'`: the table counts too, because its rows are part of the titles. */
const TITLED = /\b(?:it|describe)(\.each(?:<[^(]*>)?\([\s\S]*?\))?\(\s*(['"`])([\s\S]*?)\2/g
const COMMENT = /^\s*(?:\/\/.*|\/\*\*[\s\S]*?\*\/)$/gm

/** Ids in the titles of tests and in the vectors those tests run; a mention in a comment does not count. */
function citedIds(): ReadonlySet<string> {
  const titles = readSourceFiles('{src,test}/**/*.test.ts').flatMap(({ text }) =>
    [...text.replaceAll(COMMENT, '').matchAll(TITLED)].map(
      ([, table = '', , title = '']) => `${title}\n${table}`,
    ),
  )
  const vectors = readFileSync(new URL('../../vectors/otc.jsonl', import.meta.url), 'utf8')
  const text = [...titles, ...[...vectors.matchAll(/"refs":\[[^\]]*\]/g)].map(([refs]) => refs)].join('\n')
  return new Set([...expandRanges(text)])
}

/** `OTC-54…56` and `OTC-54/55` cite each of their rows. */
function* expandRanges(text: string): Iterable<string> {
  for (const [, first = '', joint, last] of text.matchAll(/OTC-(\d+)(?:(…|\.\.\.|\/)(?:OTC-)?(\d+))?/g)) {
    const from = Number(first)
    yield `OTC-${first}`
    if (last === undefined) continue
    if (joint === '/') yield `OTC-${last}`
    else for (let id = from; id <= Number(last); id += 1) yield `OTC-${String(id).padStart(2, '0')}`
  }
}

describe('the OTC ledger', () => {
  const cited = citedIds()

  it('has 115 rows', () => {
    expect(required).toHaveLength(115)
  })

  it('has no row without a test', () => {
    expect(required.filter((id) => !cited.has(id))).toEqual([])
  })
})
