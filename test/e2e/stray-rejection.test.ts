import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startCollet } from './server-process.ts'

it('an unhandled rejection in a tool does not stop the server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-stray-'))
  writeFileSync(
    join(folder, 'collet.config.mjs'),
    `const stray = { id: 'Stray.Drop@1.0.0', description: 'Drops a promise.', input: {}, output: null,
       run: () => { void Promise.reject(new Error('nobody looks at me')) } }
     export default { tools: [Object.assign(stray, { [Symbol.for('collet.tool')]: true })], server: { port: 0 }, store: 'memory:' }`,
  )
  const server = await startCollet(['serve'], { cwd: folder })
  const call = () =>
    fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"request":{"tool_id":"Stray.Drop"}}',
    })
  expect((await call()).status).toBe(200)
  await expect.poll(() => server.output()).toContain('nobody looks at me')
  expect((await call()).status).toBe(200)
  expect(await server.stop()).toBe(0)
  rmSync(folder, { recursive: true })
})
