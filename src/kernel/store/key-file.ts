import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { StoreError } from '#kernel/base/errors'

/**
 * The key file next to a SQLite database, for servers without `COLLET_KEY` (rule 14). `store/stores.ts` opens it. It is created
 * once, with mode 0600, and never for a database that is already in use.
 */

const KEY_BYTES = 32

interface KeyFile {
  readonly masterKey: Uint8Array
  readonly oldMasterKey: Uint8Array | undefined
}

/**
 * Reads the key file, and creates it on first use: exclusively with mode 0600, so that two processes cannot make two keys (rule
 * 14). It is never created for a database in use, which is sealed with another key. The database is checked before the key file,
 * because another process may create the key file and then fill the database in the meantime.
 */
export function readOrCreateKeyFile(path: string, database: string): KeyFile {
  const isFilled = (statSync(database, { throwIfNoEntry: false })?.size ?? 0) > 0
  if (!isFilled) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    createKeyFile(path)
  }
  return readKeyFile(path)
}

/** While the key is being changed, the file has two lines: the new key and the previous one. */
export function readKeyFile(path: string): KeyFile {
  const refused = (why: string) => new StoreError('unreadable', `the key file ${path} ${why}`)
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) throw refused('is missing; restore it from a backup or set COLLET_KEY')
  const mode = stat.mode & 0o777
  if ((mode & 0o077) !== 0)
    throw refused(`can be read by others (mode ${mode.toString(8)}). Run: chmod 600 ${path}`)
  const lines = readFileSync(path, 'utf8').trim().split(/\s+/)
  const [masterKey, oldMasterKey, ...more] = lines.map((line) => Buffer.from(line, 'base64'))
  const isKey = (key: Buffer | undefined) => key === undefined || key.length === KEY_BYTES
  if (masterKey?.length === KEY_BYTES && isKey(oldMasterKey) && more.length === 0) {
    return { masterKey, oldMasterKey }
  }
  throw refused(`does not contain ${KEY_BYTES} bytes in base64. Restore it from a backup, or set COLLET_KEY.`)
}

/** The key is written to a draft file, which is then linked to `path`: a reader sees the whole key or none, and the first key wins. */
function createKeyFile(path: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = openSync(draft, 'wx', 0o600)
  try {
    writeSync(file, `${randomBytes(KEY_BYTES).toString('base64')}\n`)
    fsyncSync(file)
    linkSync(draft, path)
    syncFolder(dirname(path))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    closeSync(file)
    rmSync(draft, { force: true })
  }
}

/** The new name is durable only once its folder is synced. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
