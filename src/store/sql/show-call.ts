import { StoreError } from '#core/errors'
import type { CallRecord } from '#core/ports/store'
import { callFromRow, unreadableText } from './call-row.ts'
import type { Row } from './row.ts'

/** For operators: a record whose contents cannot be read is shown without them, not hidden with all others. */
export function showCall(row: Row, contents: Parameters<typeof callFromRow>[1]): CallRecord {
  try {
    return callFromRow(row, contents)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unreadable')
      return callFromRow(row, unreadableText(row))
    throw error
  }
}
