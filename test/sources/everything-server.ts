import { type ChildProcess, spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'

const { resolve } = createRequire(import.meta.url)

/** The reference server that shows every feature of the old era. */
export const EVERYTHING = join(
  dirname(resolve('@modelcontextprotocol/server-everything/package.json')),
  'dist/index.js',
)
export const FILESYSTEM = join(
  dirname(resolve('@modelcontextprotocol/server-filesystem/package.json')),
  'dist/index.js',
)

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const address = server.address()
  await new Promise((done) => server.close(done))
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  return address.port
}

/** The server over Streamable HTTP, with sessions. */
export async function startEverything(
  port: number,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const child: ChildProcess = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await new Promise<void>((done, fail) => {
    child.once('exit', () => fail(new Error('the everything server exited')))
    child.stderr?.on('data', (chunk: Buffer) => {
      if (chunk.includes('listening on port')) done()
    })
  })
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = new Promise((done) => child.once('exit', done))
      child.kill('SIGKILL')
      await gone
    },
  }
}
