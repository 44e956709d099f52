import { dirname, join, resolve } from 'node:path'
import { ConfigError } from './config-error.ts'
import { parseStoreUrl } from './store-url.ts'

/** Where calls live, and the folder beside them for the key file and the start token; all absolute. */
export interface StoreLocation {
  /** `sqlite:PATH` with an absolute path, or `memory:`. */
  readonly store: string
  /** The database file; `undefined` for `memory:`. */
  readonly file: string | undefined
  /** The key belongs to its database, so it lies next to it. */
  readonly dataFolder: string
}

/** Makes a store address absolute. `where` names the setting it came from. */
export function locateStore(text: string, base: string, where: string): StoreLocation {
  const url = parseStoreUrl(text)
  if (url.kind === 'invalid') throw new ConfigError([{ severity: 'error', where, message: url.problem }])
  if (url.kind === 'memory') return { store: 'memory:', file: undefined, dataFolder: join(base, '.collet') }
  const file = resolve(base, url.path)
  return { store: `sqlite:${file}`, file, dataFolder: dirname(file) }
}
