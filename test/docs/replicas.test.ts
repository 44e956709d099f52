import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'
import { readBlocks } from './markdown-blocks.ts'

const KEY = randomBytes(32).toString('base64url')
const PRINTED_STORE = 'postgres://collet@db.internal/collet'
const LIMIT_MS = 60_000

/** Every command that the page shows; all of them share the exported variables. */
const COMMANDS = readBlocks('docs/replicas.md')
  .filter(({ language }) => language === 'sh')
  .flatMap(({ text }) => text.trimEnd().split('\n'))
  .filter((line) => !line.startsWith('export COLLET_KEY='))

describe('docs/replicas.md', () => {
  let folder: string
  let store: string
  const running: ServerProcess[] = []

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-replicas-page-'))
    store = await createDatabase('replicas_page')
    const auth = { apiKeys: [{ id: 'agent', key: KEY }] }
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ auth }))
  }, LIMIT_MS)
  afterAll(async () => {
    for (const server of running) await server.stop('SIGKILL')
    rmSync(folder, { recursive: true })
  })

  it(
    'shows servers that start as printed, all on one database, and stop on request',
    async () => {
      expect(COMMANDS).toHaveLength(2)
      const env = { COLLET_KEY: randomBytes(32).toString('base64') }
      for (const line of COMMANDS) {
        expect(line).toContain(PRINTED_STORE)
        const [program, ...words] = line.replace(PRINTED_STORE, store).split(' ')
        expect(program).toBe('collet')
        running.push(await startCollet([...words, '--port', '0'], { cwd: folder, env }))
      }
      for (const { url } of running) {
        const address = url.replace('0.0.0.0', '127.0.0.1')
        expect((await fetch(`${address}/health`)).status).toBe(200)
        expect((await fetch(`${address}/tools`)).status).toBe(401)
        expect((await fetch(`${address}/tools`, { headers: { 'x-api-key': KEY } })).status).toBe(200)
      }
      expect(await Promise.all(running.map((server) => server.stop()))).toEqual([0, 0])
    },
    LIMIT_MS,
  )
})
