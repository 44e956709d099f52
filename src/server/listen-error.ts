import type { Settings } from '#config/settings'

/** Why a server cannot listen, and what to do about it. */
export function listenError({ host, port }: Settings['server'], cause: unknown): Error {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  return new Error(explain(host, port, code), { cause })
}

function explain(host: string, port: number, code: unknown): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is already in use. Stop the process that uses it, or choose another port with --port.`
    case 'EACCES':
      return `Port ${port} may not be used by this user. Choose a port of 1024 or more with --port.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `"${host}" is not an address of this machine. Give one with --host, such as 127.0.0.1.`
    default:
      return `Cannot listen on ${host}, port ${port}.`
  }
}
