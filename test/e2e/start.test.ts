import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ServerProcess, startServerProcess } from './server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const DEMO = [
  'Calculator.Add@1.0.0',
  'Calculator.Add@1.1.0',
  'Doorbell.Ring@0.1.0',
  'Notebook.Run@1.0.0',
  'System.GetTimestamp@1.0.0',
  'Gmail.GetEmails@1.2.0',
  'SMS.Send@0.1.2',
]

let folder: string
let server: ServerProcess | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-start-'))
})

afterEach(async () => {
  await server?.stop('SIGKILL')
  rmSync(folder, { recursive: true })
})

describe('npm start', () => {
  it('serves the demo toolkit, prints the URL, a working curl and the data folder, and exits cleanly', async () => {
    const database = join(folder, 'collet.db')
    server = await startServerProcess(
      'npm',
      ['start', '--', '--port', '0', '--store', `sqlite:${database}`],
      { cwd: ROOT },
    )
    await expect.poll(() => server?.output()).toContain('Start token')
    expect(server.output()).toContain(database)
    const curl = /curl -s .*$/m.exec(server.output())?.[0] ?? ''
    const path = `${join(ROOT, 'test/docs/bin')}:${process.env.PATH}`
    const answer: unknown = JSON.parse(
      execFileSync('sh', ['-c', curl], { env: { ...process.env, PATH: path } }).toString(),
    )
    expect(answer).toMatchObject({ result: { success: true, value: 3 } })
    const list = await (await fetch(`${server.url}/tools`)).text()
    expect([...list.matchAll(/"id":"([^"]+)","name"/g)].map(([, id]) => id)).toEqual(DEMO)
    await server.stop()
    await expect
      .poll(() => readdirSync(folder).some((name) => name.startsWith('start-token')), { timeout: 5_000 })
      .toBe(false)
  })
})
