import { describe, expect, it } from 'vitest'
import { findProblems, readPages } from '../scripts/docs.ts'
import { findFaults, findOddWords, readAllFiles, readModules } from '../scripts/structure.ts'
import { readSourceFiles } from './source-files.ts'

/*
 * The rules that `npm run structure` and `npm run docs` check: sizes of modules and folders, opening comments, odd words, and links
 * of pages. The rules of imports are in `architecture.test.ts`.
 */

const MAX_TEST_LENGTH = 400

describe('modules, words and pages', () => {
  it('has modules of the allowed size, each with an opening comment', () => {
    expect(findFaults(readModules())).toEqual([])
  })

  it('reports a crowded folder, a long module, a small module with one importer and a missing opening', () => {
    const plain = { lines: 99, importers: [], hasOpening: true }
    const siblings = Array.from({ length: 21 }, (_, n) => ({ ...plain, path: `src/a/${n}.ts` }))
    const long = { ...plain, path: 'src/b/long.ts', lines: 501 }
    const small = { ...plain, path: 'src/b/small.ts', lines: 59, importers: ['src/b/long.ts'] }
    const bare = { ...plain, path: 'src/b/bare.ts', hasOpening: false }
    const found = findFaults([...readModules(), ...siblings, long, small, bare])
    expect(found).toEqual([
      'src/a has 21 source files; the maximum is 20',
      'src/b/long.ts has 501 lines; split it into two concepts',
      'src/b/small.ts has 59 lines and one importer: make it a private part of src/b/long.ts',
      'src/b/bare.ts has no opening comment about what it owns',
    ])
  })

  it('has no odd words in comments and names', () => {
    expect(findOddWords(readAllFiles())).toEqual([])
  })

  it.each([
    '/** Nobody reads it. */',
    '/** The same for lists. */',
    '  // The caller is told so.',
    'const MOST_ROUNDS = 3',
    'function tellCall() {}',
  ])('reports odd words: %s', (text) => {
    expect(findOddWords([{ path: 'a.ts', text, imports: [] }])).toEqual([`a.ts: ${text.trim()}`])
  })

  it.each(["const text = 'Nobody is here'", '/** At most three rounds. */', "it('tells the time', run)"])(
    'accepts %s',
    (text) => {
      expect(findOddWords([{ path: 'a.ts', text, imports: [] }])).toEqual([])
    },
  )

  it('has pages whose links and file names exist', () => {
    expect(findProblems(readPages())).toEqual([])
  })

  it('notices a link, a heading and a file that are not there', () => {
    const text = '[a](no.md) [b](README.md#no) `kernel/no.ts` [c](README.md)'
    expect(findProblems([...readPages(), { path: 'NEW.md', text }])).toEqual([
      'NEW.md links to no.md, which does not exist',
      'NEW.md links to README.md#no, a heading that does not exist',
      'NEW.md names kernel/no.ts, which does not exist',
    ])
  })

  it('keeps tests short enough to read', () => {
    const all = readSourceFiles('{src/**/*.test.ts,{test,bench,examples,scripts}/**/*.{ts,mjs}}')
    const long = all.filter(({ text }) => text.split('\n').length > MAX_TEST_LENGTH).map(({ path }) => path)
    expect(long).toEqual([])
  })
})
