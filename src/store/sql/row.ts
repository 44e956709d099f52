import { StoreError } from '#core/errors'

/** A row as a driver gives it. */
export type Row = Readonly<Record<string, unknown>>

/** Typed reads of one row's columns. A column of another type means a damaged database, never a guess. */
export function text(row: Row, column: string): string {
  const value = row[column]
  if (typeof value === 'string') return value
  throw damaged(column)
}

export function optionalText(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : text(row, column)
}

export function integer(row: Row, column: string): number {
  const value = row[column]
  if (typeof value === 'number') return value
  throw damaged(column)
}

export function optionalInteger(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : integer(row, column)
}

export function bytes(row: Row, column: string): Uint8Array {
  const value = row[column]
  if (value instanceof Uint8Array) return value
  throw damaged(column)
}

export function optionalBytes(row: Row, column: string): Uint8Array | null {
  return row[column] === null ? null : bytes(row, column)
}

/** One of a closed set of words. */
export function word<W extends string>(row: Row, column: string, words: readonly W[]): W {
  const value = text(row, column)
  const known = words.find((candidate) => candidate === value)
  if (known !== undefined) return known
  throw damaged(column)
}

function damaged(column: string): StoreError {
  return new StoreError('unreadable', `the database holds something unexpected in column ${column}`)
}
