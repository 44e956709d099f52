import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { StoreLocation } from '#config/to-settings'
import { type Check, fail, ok, reasonOf, warn } from './check.ts'

const TMPFS = 0x01021994
const RAMFS = 0x858458f6
/** No disk answers faster; what does has not written anything. */
const IMPOSSIBLE_FSYNC_MS = 0.01
const SYNCS = 8

/** The database: whole, readable with our key, and writable. */
export async function checkStore(
  location: StoreLocation,
  checkWritable: () => Promise<void>,
): Promise<Check> {
  const { file } = location
  if (file === undefined) {
    return warn(
      'store',
      'The memory store forgets every call when the server stops',
      'Use sqlite:PATH to keep them.',
    )
  }
  if (!existsSync(file)) return checkFolder(location.dataFolder, file)
  try {
    const damage = quickCheck(file)
    if (damage !== undefined)
      return fail('store', `${file} is damaged: ${damage}`, 'Restore it from a backup.')
    await checkWritable()
    return ok('store', `${file} is whole and writable`)
  } catch (error) {
    return fail(
      'store',
      `${file}: ${reasonOf(error)}`,
      'Check the path, its permissions, the free space and the key.',
    )
  }
}

function quickCheck(file: string): string | undefined {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    const answer = String(database.prepare('PRAGMA quick_check(1)').get()?.quick_check ?? 'no answer')
    return answer === 'ok' ? undefined : answer
  } finally {
    database.close()
  }
}

function checkFolder(folder: string, file: string): Check {
  const nearest = nearestFolder(folder)
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK)
    return ok('store', `${file} will be made at the first start`)
  } catch {
    return fail(
      'store',
      `${nearest} is not writable`,
      'Change its owner or permissions, or choose another store.',
    )
  }
}

/** Whether what is written reaches a disk before it is acknowledged; as far as can be seen from here. */
export function checkDurability({ file, dataFolder }: StoreLocation): Check {
  if (file === undefined) return ok('fsync', 'Not needed: the memory store writes nothing')
  const folder = nearestFolder(dataFolder)
  const { type } = statfsSync(folder)
  if (type === TMPFS || type === RAMFS) {
    return warn(
      'fsync',
      `${folder} is in memory and gone after a restart of the machine`,
      'Put the store on a disk.',
    )
  }
  try {
    const ms = fsyncMs(folder)
    if (ms >= IMPOSSIBLE_FSYNC_MS) return ok('fsync', `${folder} syncs in ${ms.toFixed(2)} ms`)
    const advice = 'Something (libeatmydata, a mount option, a virtual disk) ignores fsync. Turn that off.'
    return warn('fsync', `${folder} claims to sync in no time`, advice)
  } catch (error) {
    return fail('fsync', `${folder}: ${reasonOf(error)}`, 'Make the folder writable and free some space.')
  }
}

/** Median of a few small writes, each synced. */
function fsyncMs(folder: string): number {
  const path = join(folder, `.collet-doctor-${process.pid}`)
  const file = openSync(path, 'wx', 0o600)
  try {
    const times = Array.from({ length: SYNCS }, () => {
      const start = performance.now()
      writeSync(file, 'x')
      fsyncSync(file)
      return performance.now() - start
    })
    return times.sort((left, right) => left - right)[SYNCS / 2] ?? 0
  } finally {
    closeSync(file)
    rmSync(path, { force: true })
  }
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearestFolder(dirname(folder))
}
