import type { Settings } from '#config/settings'

type Explain = (host: string, port: number) => string

const EXPLANATIONS: ReadonlyMap<unknown, Explain> = new Map<unknown, Explain>([
  [
    'EADDRINUSE',
    (host, port) =>
      `Port ${port} on ${host} is already in use. Stop the process that uses it, or choose another port with --port.`,
  ],
  [
    'EACCES',
    (_host, port) => `Port ${port} may not be used by this user. Choose a port of 1024 or more with --port.`,
  ],
  ['EADDRNOTAVAIL', notHere],
  ['ENOTFOUND', notHere],
])

/** Why a server cannot listen, and what to do about it. */
export function listenError({ host, port }: Settings['server'], cause: unknown): Error {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  const explain = EXPLANATIONS.get(code) ?? (() => `Cannot listen on ${host}, port ${port}.`)
  return new Error(explain(host, port), { cause })
}

function notHere(host: string): string {
  return `"${host}" is not an address of this machine. Give one with --host, such as 127.0.0.1.`
}
