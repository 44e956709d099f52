import { readFileSync } from 'node:fs'
import { readSourceFiles } from '../source-files.ts'

/** A ledger in `docs/internals/specs` and the vectors in `vectors` that go with it. */
export interface Ledger {
  /** Rows are `OTC-01`, `OTC-02` … */
  readonly prefix: string
  readonly file: string
  readonly vectors: string
}

/** `it('title'`, `it.each(table)('title'`: the table counts too, because its rows are part of the titles. */
const TITLED = /\b(?:it|describe)(\.each(?:<[^(]*>)?\([\s\S]*?\))?\(\s*(['"`])([\s\S]*?)\2/g
const COMMENT = /^\s*(?:\/\/.*|\/\*\*[\s\S]*?\*\/)$/gm
/** The members of vectors that name rows: the purpose of a vector, and its expected findings. */
const VECTOR_ROWS = /"refs":\[[^\]]*\]|"rule":"[^"]*"|"(?:errors|warnings)":\[(?:\[[^\]]*\],?)*\]/g

/** Every row: a line of a table, or a rule in bold. */
export function requiredIds({ prefix, file }: Ledger): readonly string[] {
  const text = readFileSync(new URL(`../../docs/internals/specs/${file}`, import.meta.url), 'utf8')
  const rows = text.matchAll(
    new RegExp(`^\\| (${prefix}-\\d+) \\||\\*\\*(${prefix}-\\d+(?:/\\d+)?)\\b`, 'gm'),
  )
  return [...new Set([...rows].flatMap(([, row = '', rule = '']) => [...expandRanges(prefix, row + rule)]))]
}

/** Ids in the titles of tests and in the vectors those tests run; a mention in a comment does not count. */
export function citedIds({ prefix, vectors }: Ledger): ReadonlySet<string> {
  const titles = readSourceFiles('{src,test}/**/*.test.ts').flatMap(({ text }) =>
    [...text.replaceAll(COMMENT, '').matchAll(TITLED)].map(
      ([, table = '', , title = '']) => `${title}\n${table}`,
    ),
  )
  const data = readFileSync(new URL(`../../vectors/${vectors}`, import.meta.url), 'utf8')
  const text = [...titles, ...[...data.matchAll(VECTOR_ROWS)].map(([rows]) => rows)].join('\n')
  return new Set(expandRanges(prefix, text))
}

/** `OTC-54…56` and `OTC-54/55` cite each of their rows. */
function* expandRanges(prefix: string, text: string): Iterable<string> {
  const mention = new RegExp(`${prefix}-(\\d+)(?:(…|\\.\\.\\.|/)(?:${prefix}-)?(\\d+))?`, 'g')
  for (const [, first = '', joint, last] of text.matchAll(mention)) {
    const from = Number(first)
    yield `${prefix}-${first}`
    if (last === undefined) continue
    if (joint === '/') yield `${prefix}-${last}`
    else for (let id = from; id <= Number(last); id += 1) yield `${prefix}-${String(id).padStart(2, '0')}`
  }
}
