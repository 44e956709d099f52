import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const SERVER = new URL('../cli/small-mcp-server.mjs', import.meta.url).pathname
const PROGRAM = { command: process.execPath, args: [SERVER, 'Files', 'read_x'] }

let home: string
let server: PrincipalsServer | undefined
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'collet-bypass-'))
})
afterEach(async () => {
  await server?.stop()
  server = undefined
  rmSync(home, { recursive: true })
})

async function listed(changes: Parameters<typeof startPrincipalsServer>[0] = {}) {
  server = await startPrincipalsServer({
    variables: () => ({ HOME: home, PATH: process.env.PATH }),
    ...changes,
  })
  const credential = { key: readFileSync(server.startTokenFile, 'utf8').trim() }
  const options = { type: 'mcp', ...PROGRAM, env: { TOKEN: 'stored' } }
  const added = await server.ask('/admin/sources', {
    ...credential,
    method: 'POST',
    body: { key: 'Files', options },
  })
  expect(added.status).toBe(201)
  mkdirSync(join(home, '.cursor'))
  const mcpServers = {
    files: { ...PROGRAM, env: { TOKEN: 't-canary' } },
    other: { command: 'other' },
    collet: { url: `${server.url}/mcp` },
  }
  writeFileSync(join(home, '.cursor/mcp.json'), JSON.stringify({ mcpServers }))
  return (await server.ask('/admin/sources', credential)).json
}

describe('GET /admin/sources', () => {
  it('names client entries that bypass the server to reach a source, without their values', async () => {
    const json = await listed()
    expect(json.bypasses).toEqual([
      {
        ...{ client: 'cursor', title: 'Cursor', name: 'files', source: 'Files', clear: ['TOKEN'] },
        file: join(home, '.cursor/mcp.json'),
      },
    ])
    expect(JSON.stringify(json)).not.toContain('canary')
  })

  it('reads no client files on a published server', async () => {
    const publicUrl = 'https://tools.example'
    const { server: usual } = (await startAndStop()).settings
    expect((await listed({ server: { ...usual, publicUrl } })).bypasses).toEqual([])
  })
})

async function startAndStop(): Promise<PrincipalsServer> {
  const started = await startPrincipalsServer()
  await started.stop()
  return started
}
