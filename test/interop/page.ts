import { readFileSync, writeFileSync } from 'node:fs'

/** The page has parts that programs write, each between two comments. */
const PAGE = new URL('../../docs/mcp-conformance.md', import.meta.url)

export function replacePart(name: 'suite' | 'servers', lines: readonly string[]): void {
  const [start, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const page = readFileSync(PAGE, 'utf8')
  const [before, after] = [page.indexOf(start), page.indexOf(end)]
  if (before === -1 || after === -1) throw new Error(`docs/mcp-conformance.md has no part "${name}"`)
  writeFileSync(
    PAGE,
    `${page.slice(0, before + start.length)}\n\n${lines.join('\n').trim()}\n\n${page.slice(after)}`,
  )
}
