import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import {
  memorySkillFiles,
  type SkillCatalogOptions,
  SkillsExtension,
} from '@modelcontextprotocol/server/ext/skills'

/** The official server with its skills extension: 2026-07-28 over HTTP, and the old era beside it. */
export interface SkillServer {
  readonly url: string
  /** Writes a file, and publishes the skills again. `isTold`: connected clients are notified. */
  write(path: string, text: string, isTold?: boolean): Promise<void>
  close(): Promise<void>
}

export type SkillFolder = Record<string, string | Uint8Array>

export const skillText = (name: string, description: string, body = '# How') =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`

export async function startSkillServer(
  files: SkillFolder,
  options: SkillCatalogOptions = {},
): Promise<SkillServer> {
  const skills = await SkillsExtension.load(memorySkillFiles(files), { strict: true, ...options })
  const handler = createMcpHandler(() => {
    const server = new McpServer(
      { name: 'skills', version: '1.0.0' },
      { capabilities: { resources: { listChanged: true } } },
    )
    skills.attach(server)
    server.registerResource('plain', 'docs://plain', {}, (uri) => ({
      contents: [{ uri: uri.href, text: 'plain' }],
    }))
    return server
  })
  const handle = toNodeHandler(handler)
  const server = createServer((request, response) => {
    const { method = 'POST', url = '/' } = request
    void handle(Object.assign(request, { method, url }), response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    async write(path, text, isTold = true) {
      files[path] = text
      await skills.reload()
      if (isTold) handler.notify.resourcesChanged()
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
