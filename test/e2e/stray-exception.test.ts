import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startCollet } from './server-process.ts'

it('an uncaught exception is logged, running calls finish, and the server exits with code 3', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-stray-'))
  writeFileSync(
    join(folder, 'collet.config.mjs'),
    `const stray = { id: 'Stray.Throw@1.0.0', description: 'Throws where nobody catches.', input: {}, output: { type: 'string' },
       run: () => new Promise((resolve) => setImmediate(() => {
         setTimeout(() => resolve('finished'), 200)
         throw new Error('nobody catches me')
       })) }
     export default { tools: [Object.assign(stray, { [Symbol.for('collet.tool')]: true })], server: { port: 0 }, store: 'memory:' }`,
  )
  const server = await startCollet(['serve'], { cwd: folder })
  try {
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"request":{"tool_id":"Stray.Throw"}}',
    })
    expect(await response.json()).toMatchObject({ result: { success: true, value: 'finished' } })
    expect(await server.ended).toBe(3)
    expect(server.output()).toContain('nobody catches me')
    expect(server.output()).toContain('Stopping')
  } finally {
    await server.stop('SIGKILL')
    rmSync(folder, { recursive: true })
  }
})
