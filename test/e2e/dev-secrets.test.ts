import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCollet, type ServerProcess, startCollet } from './server-process.ts'

const CONFIG = `export default { tools: [{
  [Symbol.for('collet.tool')]: true,
  id: 'Bank.Pin@1.0.0', description: 'Says how long the pin is.', input: { type: 'object' }, output: {},
  requirements: { secrets: [{ id: 'BANK_PIN' }] },
  policy: { safetyTier: 'read' },
  run: (_input, { secret }) => secret('BANK_PIN').reveal().length,
}] }`

let folder: string
let server: ServerProcess | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-dev-'))
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
  writeFileSync(join(folder, '.env'), 'BANK_PIN=canary-12345\nOTHER=not-declared\n')
})
afterEach(async () => {
  await server?.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function call(words: readonly string[]) {
  server = await startCollet([...words, '--port', '0'], { cwd: folder, env: { NO_COLOR: '1' } })
  return await runCollet(['call', 'Bank.Pin', '{}', '--url', server.url], { cwd: folder })
}

describe('secrets in .env', () => {
  it('are used by collet dev for calls from this machine, and never stored', async () => {
    const { code, stdout } = await call(['dev', '--once'])
    expect([code, stdout]).toEqual([0, '12\n'])
    expect(server?.output()).toContain('Secrets from .env: BANK_PIN\n')
    expect(server?.output()).not.toContain('canary')
    await server?.stop()
    for (const file of ['collet.db', 'collet.db-wal'])
      expect(readIfThere(join(folder, '.collet', file))).not.toContain('canary')
  })

  it('are not read by collet serve', async () => {
    const { code, stderr } = await call(['serve'])
    expect([code, stderr]).toEqual([expect.any(Number), expect.stringContaining('BANK_PIN')])
    expect(code).not.toBe(0)
  })
})

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
