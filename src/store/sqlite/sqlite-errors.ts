import { StoreError, type StoreErrorCode } from '#core/errors'

const BUSY = 5
const FULL = 13

/** SQLite's primary result code, or `undefined` for other errors. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined
  return error.errcode & 0xff
}

export function isBusy(error: unknown): boolean {
  return resultCode(error) === BUSY
}

const CODES: Readonly<Record<number, { readonly code: StoreErrorCode; readonly why: string }>> = {
  8: { code: 'full', why: 'the database is read-only; check the permissions of the file and its folder' },
  10: { code: 'full', why: 'the disk reported an I/O error' },
  11: { code: 'unreadable', why: 'the database file is damaged; restore it from a backup' },
  [FULL]: { code: 'full', why: 'the disk is full' },
  14: { code: 'unreadable', why: 'the database file cannot be opened; check the path and its permissions' },
  26: {
    code: 'unreadable',
    why: 'the file is not a SQLite database, or it is damaged; restore it from a backup or choose another path',
  },
}

/** Any error as a `StoreError` that says what happened in words. */
export function storeErrorOf(error: unknown, doing: string): StoreError {
  if (error instanceof StoreError)
    return new StoreError(error.code, `${doing}: ${error.message}`, { cause: error })
  const known = CODES[resultCode(error) ?? -1]
  const message = error instanceof Error ? error.message : String(error)
  return new StoreError(known?.code ?? 'not_written', `${doing}: ${known?.why ?? message}`, { cause: error })
}

/** Whether the error concerns the whole store, so that trying the rows one by one is pointless. */
export function isStoreWide(error: unknown): boolean {
  const code = resultCode(error)
  return code !== undefined && code in CODES
}
