import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runCollet, type ServerProcess, startCollet } from './server-process.ts'

const CONFIG = `export default { tools: [{
  [Symbol.for('collet.tool')]: true,
  id: 'Demo.One@1.0.0', description: 'Returns one.', input: { type: 'object' }, output: {},
  policy: { safetyTier: 'pure' },
  run: () => 1,
}] }`

let folder: string
let server: ServerProcess | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-first-key-'))
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
})
afterEach(async () => {
  await server?.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function develop(...more: readonly string[]): Promise<ServerProcess> {
  await server?.stop()
  server = await startCollet(['dev', '--once', '--port', '0', ...more], {
    cwd: folder,
    env: { NO_COLOR: '1' },
  })
  return server
}

it('collet dev reports that every caller needs a key, when the first one is created and at each later start', async () => {
  const first = await develop()
  const call = ['call', 'Demo.One', '{}', '--url']
  expect((await runCollet([...call, first.url], { cwd: folder })).code).toBe(0)
  const made = await runCollet(['keys', 'create', 'me', '--url', first.url], { cwd: folder })
  expect([made.code, made.stderr]).toEqual([0, expect.stringContaining('"anonymous" (1 call today)')])
  expect((await runCollet([...call, first.url], { cwd: folder })).code).not.toBe(0)
  await expect.poll(first.output).toContain('every caller needs a key, including callers on this machine')
  const second = await develop()
  await expect.poll(second.output).toContain('Every caller needs a key here')
  const other = await develop('--store', 'memory:')
  expect((await runCollet([...call, other.url], { cwd: folder })).code).toBe(0)
  expect(other.output()).not.toContain('needs a key')
})
