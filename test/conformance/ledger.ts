import { readFileSync } from 'node:fs'
import { readSourceFiles } from '../source-files.ts'

/** Of requirement ids: `OTC` in `OTC-60`. */
export type LedgerPrefix = 'OTC' | 'OTS' | 'OWP'

/** `it('title'`, `it.each(table)('title'`: the table counts too, because its rows are part of the titles. */
const TITLED = /\b(?:it|describe)(\.each(?:<[^(]*>)?\([\s\S]*?\))?\(\s*(['"`])([\s\S]*?)\2/g
const COMMENT = /^\s*(?:\/\/.*|\/\*\*[\s\S]*?\*\/)$/gm

/** The ids of the rows of a ledger, a path in `docs/specs/`. */
export function ledgerIds(prefix: LedgerPrefix, file: string): readonly string[] {
  const ledger = readFileSync(new URL(`../../docs/specs/${file}`, import.meta.url), 'utf8')
  const rows = ledger.matchAll(new RegExp(String.raw`^\| (${prefix}-\d+) \|`, 'gm'))
  return [...new Set([...rows].map(([, id = '']) => id))]
}

/** Ids in the titles of tests and in the vectors those tests run; a mention in a comment does not count. */
export function citedIds(prefix: LedgerPrefix, vectorsFile?: string): ReadonlySet<string> {
  const titles = readSourceFiles('{src,test}/**/*.test.ts').flatMap(({ text }) =>
    [...text.replaceAll(COMMENT, '').matchAll(TITLED)].map(
      ([, table = '', , title = '']) => `${title}\n${table}`,
    ),
  )
  const references = vectorsFile === undefined ? [] : readReferences(vectorsFile)
  return new Set(expandRanges(prefix, [...titles, ...references].join('\n')))
}

function readReferences(vectorsFile: string): readonly string[] {
  const vectors = readFileSync(new URL(`../../vectors/${vectorsFile}`, import.meta.url), 'utf8')
  return [...vectors.matchAll(/"refs":\[[^\]]*\]/g)].map(([refs]) => refs)
}

/** `OTC-54…56` and `OTC-54/55` cite each of their rows. */
export function* expandRanges(prefix: LedgerPrefix, text: string): Iterable<string> {
  const mention = new RegExp(String.raw`${prefix}-(\d+)(?:(…|\.\.\.|\/)(?:${prefix}-)?(\d+))?`, 'g')
  for (const [, first = '', joint, last] of text.matchAll(mention)) {
    yield `${prefix}-${first}`
    if (last === undefined) continue
    if (joint === '/') yield `${prefix}-${last}`
    else
      for (let id = Number(first); id <= Number(last); id += 1)
        yield `${prefix}-${String(id).padStart(2, '0')}`
  }
}
