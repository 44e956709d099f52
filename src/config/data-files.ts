import { join } from 'node:path'

/** The generated master key, when `COLLET_KEY` is not set (rule 14). */
export function keyFileIn(dataFolder: string): string {
  return join(dataFolder, 'key')
}

/** The credential of whoever can read this machine's data folder (rule 29). */
export function startTokenFileIn(dataFolder: string): string {
  return join(dataFolder, 'start-token')
}
