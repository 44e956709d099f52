import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Tool } from '#kernel/tool/tool'
import { createGateway } from '#server/create-gateway'

/**
 * The tools that the tasks are about, imported as a server imports them: OpenAPI documents and public MCP servers, all from
 * development dependencies. Nothing outside of this machine is reached.
 */

const { resolve } = createRequire(import.meta.url)
const packageFolder = (name: string): string => dirname(resolve(`${name}/package.json`))
const document = (name: string, file: string) => ({
  type: 'openapi' as const,
  file: join(packageFolder(name), file),
})
const mcpServer = (name: string, ...args: readonly string[]) => ({
  type: 'mcp' as const,
  command: process.execPath,
  args: [join(packageFolder(`@modelcontextprotocol/server-${name}`), 'dist/index.js'), ...args],
})

/** The tasks of `tasks.txt` are about these. */
export const OWN_SET = {
  tasks: 'tasks.txt',
  minTools: 1_250,
  sources: {
    github: document('@octokit/openapi', 'generated/api.github.com.json'),
    filesystem: mcpServer('filesystem', '/tmp'),
    memory: mcpServer('memory'),
    everything: mcpServer('everything', 'stdio'),
  },
}

export const OTHER_SET = {
  tasks: 'tasks-other.txt',
  minTools: 230,
  sources: {
    netlify: document('@netlify/open-api', 'dist/swagger.json'),
    figma: document('@figma/rest-api-spec', 'openapi/openapi.yaml'),
  },
}

export interface TaskSet {
  readonly tools: readonly Tool[]
  readonly tasks: readonly Task[]
}

export async function readSet(set: typeof OWN_SET | typeof OTHER_SET): Promise<TaskSet> {
  const { sources, minTools } = set
  const gateway = await createGateway({ sources, store: 'memory:', tools: [] })
  try {
    for (let wait = 0; wait < 600; wait += 1) {
      const tools = gateway.tools()
      if (tools.length >= minTools) return { tools, tasks: readTasks(set.tasks, tools) }
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
  /** Hand-written wordings. */
  readonly wordings: readonly string[]
}

function readTasks(file: string, tools: readonly Tool[]): readonly Task[] {
  const known = new Set(tools.map(taskName))
  const lines = readFileSync(join(import.meta.dirname, file), 'utf8').split('\n')
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [names = '', ...wordings] = line.split(' | ')
      const wanted = names.split(' ')
      for (const name of wanted)
        if (!known.has(name)) throw new Error(`${file} names ${name}, which no source has.`)
      return { tools: wanted, wordings }
    })
}

/** A tool as tasks name it. */
export function taskName({ parts, nativeName }: Tool): string {
  return `${parts.toolkit.toLowerCase()}:${nativeName}`
}
