import { join } from 'node:path'

/** The generated master key, when `COLLET_KEY` is not set (rule 14). */
export function keyFileIn(dataFolder: string): string {
  return join(dataFolder, 'key')
}

/**
 * The credential of whoever can read this machine's data folder (rule 29), for the server at this address: several may
 * share one folder, each on a port of its own.
 */
export function startTokenFileIn(dataFolder: string, serverUrl: string): string {
  const { port, protocol } = new URL(serverUrl)
  return join(dataFolder, `start-token-${port || (protocol === 'https:' ? 443 : 80)}`)
}
