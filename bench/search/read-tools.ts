import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Tool } from '#kernel/tool/tool'
import { createGateway } from '#server/create-gateway'

/**
 * The tools that the tasks are about, imported as a server imports them: GitHub's OpenAPI document and three public MCP servers,
 * all from development dependencies. Nothing outside of this machine is reached.
 */

const { resolve } = createRequire(import.meta.url)
const packageFolder = (name: string): string => dirname(resolve(`${name}/package.json`))
const serverProgram = (name: string): string =>
  join(packageFolder(`@modelcontextprotocol/server-${name}`), 'dist/index.js')

const SOURCES = {
  github: { type: 'openapi' as const, file: 'api.github.com.json' },
  filesystem: {
    type: 'mcp' as const,
    command: process.execPath,
    args: [serverProgram('filesystem'), '/tmp'],
  },
  memory: { type: 'mcp' as const, command: process.execPath, args: [serverProgram('memory')] },
  everything: {
    type: 'mcp' as const,
    command: process.execPath,
    args: [serverProgram('everything'), 'stdio'],
  },
}

const MIN_TOOLS = 1_250

export async function readTools(): Promise<readonly Tool[]> {
  const folder = join(dirname(resolve('@octokit/openapi/package.json')), 'generated')
  const gateway = await createGateway({ sources: SOURCES, store: 'memory:', tools: [] }, { folder })
  try {
    for (let wait = 0; wait < 600; wait += 1) {
      const tools = gateway.tools()
      if (tools.length >= MIN_TOOLS) return tools
      await new Promise((done) => setTimeout(done, 100))
    }
    throw new Error(`Only ${gateway.tools().length} tools were read.`)
  } finally {
    await gateway.close()
  }
}

export interface Task {
  /** Native names of the tools, with the key of their source before them. */
  readonly tools: readonly string[]
  /** Three hand-written wordings. */
  readonly wordings: readonly string[]
}

export function readTasks(): readonly Task[] {
  const lines = readFileSync(join(import.meta.dirname, 'tasks.txt'), 'utf8').split('\n')
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [tools = '', ...wordings] = line.split(' | ')
      return { tools: tools.split(' '), wordings }
    })
}

/** A tool as tasks name it. */
export function taskName({ parts, nativeName }: Tool): string {
  return `${parts.toolkit.toLowerCase()}:${nativeName}`
}
