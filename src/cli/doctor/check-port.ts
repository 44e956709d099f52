import { createServer } from 'node:net'
import { type Check, fail, ok, warn } from './check.ts'

/** Whether the server could listen now. A port in use is only a warning: it may be our own server. */
export async function checkPort(host: string, port: number): Promise<Check> {
  const place = `${host}:${port}`
  const code = await tryToListen(host, port)
  if (code === undefined) return ok('port', `${place} is free`)
  if (code === 'EADDRINUSE') {
    return warn(
      'port',
      `${place} is taken`,
      'Fine if Collet runs there; otherwise choose another with --port.',
    )
  }
  return fail(
    'port',
    `${place} cannot be used (${code})`,
    'Set server.host and server.port, or --host and --port.',
  )
}

function tryToListen(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve('code' in error ? String(error.code) : 'unknown'))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}
