import { basename } from 'node:path'
import type { FoundSource } from './found-source.ts'

/** A program is taken for an MCP server on its standard input and output; looking at its tools will tell. */
export function foundCommand(words: readonly string[], cwd: string): FoundSource {
  const [command = '', ...args] = words
  return {
    type: 'mcp',
    options: { type: 'mcp', command, ...(args.length === 0 ? {} : { args: [...args] }), cwd },
    what: 'an MCP server (stdio)',
    name: nameOf(command, args),
    notes: [],
  }
}

const LAUNCHERS: ReadonlySet<string> = new Set([
  'npx',
  'node',
  'uvx',
  'uv',
  'bunx',
  'deno',
  'python',
  'python3',
])

/** `npx -y @scope/server-files@1.2 /data` is `server-files`. */
function nameOf(command: string, args: readonly string[]): string {
  const program = basename(command)
  if (!LAUNCHERS.has(program)) return program
  const meant = args.find((word) => !word.startsWith('-') && word !== 'run') ?? program
  return basename(meant.replace(/(?<=.)@[^/]*$/, '')).replace(/\.[cm]?[jt]s$|\.py$/, '')
}
