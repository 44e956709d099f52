import type { Settings } from '#config/settings'

/** What to do about a server that cannot start; `undefined` when we do not know. */
export function explainStartFailure(error: unknown, { server }: Settings): string | undefined {
  const code = codeOf(error) ?? (error instanceof Error ? codeOf(error.cause) : undefined)
  const place = `${server.host}:${server.port}`
  switch (code) {
    case 'EADDRINUSE':
      return `${place} is taken. Stop the program that listens there, or choose another port with --port.`
    case 'EACCES':
      return `${place} may not be used by this user. Ports below 1024 are reserved: choose another with --port.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `"${server.host}" is not an address of this machine. Choose one with --host.`
    default:
      return undefined
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
