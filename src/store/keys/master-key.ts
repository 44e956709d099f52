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
import { StoreError } from '#core/errors'

const KEY_BYTES = 32

/**
 * The key file's key, made on first use: created exclusively with mode 0600, so two processes cannot make two (rule 14).
 * Never for a database that is in use: it was sealed with another key, and a new one would take that one's place. The
 * database is looked at first, because whoever fills it has made the key before.
 */
export function readOrCreateKeyFile(path: string, database: string): Uint8Array {
  if (isFilled(database)) return readKeyFile(path)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createKeyFile(path)
  return readKeyFile(path)
}

export function readKeyFile(path: string): Uint8Array {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) {
    throw new StoreError(
      'unreadable',
      `the key file ${path} is missing; restore it from a backup or set COLLET_KEY`,
    )
  }
  const mode = stat.mode & 0o777
  if ((mode & 0o077) !== 0) {
    throw new StoreError(
      'unreadable',
      `the key file ${path} can be read by others (mode ${mode.toString(8)}). Run: chmod 600 ${path}`,
    )
  }
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
  if (key.length === KEY_BYTES) return key
  throw new StoreError(
    'unreadable',
    `the key file ${path} does not hold ${KEY_BYTES} bytes in base64. Restore it from a backup, or set COLLET_KEY.`,
  )
}

function isFilled(database: string): boolean {
  return (statSync(database, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/** Written aside and linked into place: a reader sees the whole key or none, and the first one made stays. */
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

/** A new name is on the disk only once its folder is. */
function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
