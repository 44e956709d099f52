/**
 * `npm run docs:cli`: writes the help of every command into docs/cli.md. The first block of the page is the overview; each
 * section `## collet NAME` keeps its own text around the block. A test compares the page with the commands.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { loadCommands, renderCommandHelp, renderOverview } from '#cli/run'
import { VERSION } from '#server/version'

const file = new URL('../docs/cli.md', import.meta.url)
const commands = await loadCommands()
const blocks = new Map(commands.map((command) => [command.name, renderCommandHelp(command)]))
const [head = '', ...sections] = readFileSync(file, 'utf8').split(/^(?=## )/m)

const known = new Set(sections.map(nameOf))
const missing = [...blocks.keys()].filter((name) => !known.has(name))
const added = missing.map((name) => `## collet ${name}\n\n\`\`\`text\n\`\`\`\n\n`)
const page = [
  withBlock(head, renderOverview(commands)),
  ...[...sections, ...added].map((section) => withBlock(section, blocks.get(nameOf(section)))),
]
writeFileSync(file, page.join(''))

function nameOf(section: string): string {
  return /^## collet (.+)$/m.exec(section)?.[1] ?? ''
}

function withBlock(section: string, help: string | undefined): string {
  if (help === undefined) return section
  const text = help.replaceAll(VERSION, 'x.y.z').trimEnd()
  return section.replace(/^```text\n[\s\S]*?^```$/m, () => `\`\`\`text\n${text}\n\`\`\``)
}
