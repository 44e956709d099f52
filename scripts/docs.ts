import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * `npm run docs` checks the documentation where a program can: links lead to existing pages and headings, and named
 * files exist. `npm run check` runs it.
 */

const ROOT = join(import.meta.dirname, '..')
const MAX_WORDS = 15
/** Folders of `src/` as pages write them: `kernel/base/errors.ts` is `src/kernel/base/errors.ts`. */
const FOLDERS =
  'kernel|stages|schema|protocols|sources|store|oauth|egress|auth|config|server|client|cli|testing'
const NAMED_FILE = new RegExp(
  `\`((?:(?:src|test|bench|scripts|vectors|examples)/|(?:${FOLDERS})/)[\\w./-]+\\.(?:ts|mjs|jsonl|json))\``,
  'g',
)
const LINK = /\[[^\]\n]*\]\(([^)\s]+)\)/g

export interface Page {
  readonly path: string
  readonly text: string
}

export function readPages(): readonly Page[] {
  const paths = globSync('{*.md,docs/**/*.md,bench/*.md,examples/**/*.md}', {
    cwd: ROOT,
    exclude: ['**/node_modules/**'],
  })
  return paths.sort().map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
}

/** Problems, one sentence each. */
export function findProblems(pages: readonly Page[]): readonly string[] {
  return [...pages.flatMap((page) => [...brokenLinks(page), ...missingFiles(page)]), ...longGlossary(pages)]
}

function brokenLinks({ path, text }: Page): readonly string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, '')
  return [...prose.matchAll(LINK)].flatMap(([, link = '']) => {
    if (/^[a-z]+:/.test(link)) return []
    const [file = '', anchor] = link.split('#')
    const target = file === '' ? path : normalize(join(dirname(path), file))
    if (!existsSync(join(ROOT, target))) return [`${path} links to ${link}, which does not exist`]
    if (anchor === undefined || !target.endsWith('.md')) return []
    return anchorsOf(target).has(anchor) ? [] : [`${path} links to ${link}, a heading that does not exist`]
  })
}

function anchorsOf(path: string): ReadonlySet<string> {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return new Set([...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading)))
}

/** The anchor that repository hosts give a heading. */
function anchorOf(heading: string): string {
  const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
  return words
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')
}

/** Decisions and the changelog name files as they were at the time. */
function missingFiles({ path, text }: Page): readonly string[] {
  if (path.startsWith('docs/internals/decisions/') || path === 'CHANGELOG.md') return []
  return [...text.matchAll(NAMED_FILE)].flatMap(([, file = '']) => {
    const candidates = [file, `src/${file}`, join(dirname(path), file)]
    return candidates.some((candidate) => existsSync(join(ROOT, candidate)))
      ? []
      : [`${path} names ${file}, which does not exist`]
  })
}

function longGlossary(pages: readonly Page[]): readonly string[] {
  const text = pages.find(({ path }) => path === 'ARCHITECTURE.md')?.text ?? ''
  const glossary = /^## [^\n]*words\n([\s\S]*?)^## /m.exec(text)?.[1]
  if (glossary === undefined) return ['ARCHITECTURE.md has no glossary']
  const words = glossary.split('\n').filter((line) => /^\| [a-z]/.test(line)).length - 1
  return words > MAX_WORDS ? [`The glossary has ${words} words; the maximum is ${MAX_WORDS}`] : []
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const pages = readPages()
  const problems = findProblems(pages)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.stdout.write(`${pages.length} pages, ${problems.length} problems\n`)
  if (problems.length > 0) process.exitCode = 1
}
