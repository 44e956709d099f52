import { existsSync, readFileSync, statSync } from 'node:fs'
import { decodeMasterKey } from '#config/environment'
import { ConfigError } from '#config/load'
import { keyFileIn, type StoreLocation } from '#config/to-settings'
import { Secret } from '#core/secret'
import { type Check, fail, ok, reasonOf } from './check.ts'

const OTHERS = 0o077

/** The key everything stored is sealed with (rule 14): `COLLET_KEY`, or the key file beside the database. */
export function checkKey(location: StoreLocation, masterKey: Secret | undefined): Check {
  if (location.file === undefined) return ok('key', 'Not needed: the memory store does not encrypt')
  if (masterKey !== undefined) return checkVariable(masterKey)
  const file = keyFileIn(location.dataFolder)
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat === undefined) return checkAbsent(file, location.file)
  const mode = stat.mode & 0o777
  if ((mode & OTHERS) !== 0) {
    return fail('key', `${file} can be read by others (mode ${mode.toString(8)})`, `Run: chmod 600 ${file}`)
  }
  return checkContents(file)
}

function checkVariable(key: Secret): Check {
  try {
    decodeMasterKey(key)
    return ok('key', 'COLLET_KEY has 32 bytes')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return fail('key', reasonOf(error), 'Set COLLET_KEY to the key the database was made with.')
  }
}

function checkAbsent(file: string, database: string): Check {
  if (!existsSync(database)) return ok('key', `${file} will be made at the first start`)
  return fail(
    'key',
    `${file} is gone, but its database is there`,
    'Restore it from a backup, or set COLLET_KEY.',
  )
}

function checkContents(file: string): Check {
  try {
    decodeMasterKey(new Secret(readFileSync(file, 'utf8')))
    return ok('key', `${file} has 32 bytes and is private`)
  } catch {
    return fail(
      'key',
      `${file} does not hold a key of 32 bytes`,
      'Restore it from a backup, or set COLLET_KEY.',
    )
  }
}
