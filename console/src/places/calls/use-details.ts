import { useEffect, useRef } from 'react'
import { type CallRow, requestRows } from './api.ts'
import type { CallList } from './call-list.ts'

/*
 * Requests details of the rows in view: the stream reports calls without protocol, message and input. Used by `call-table.tsx`.
 * Each row is requested once, because the server journals each reading of an input.
 */

const PAUSE_MS = 150
const MAX_RECORDS = 100

export function useDetails(list: CallList, rows: readonly CallRow[], withInputs: boolean): void {
  const asked = useRef(new Set<string>())
  const missing = rows.filter((row) => lacksDetails(row, withInputs)).map((row) => keyOf(row, withInputs))
  const wanted = missing.join(',')
  useEffect(() => {
    if (wanted === '') return undefined
    const timer = setTimeout(() => {
      const keys = wanted
        .split(',')
        .filter((key) => !asked.current.has(key))
        .slice(0, MAX_RECORDS)
      for (const key of keys) asked.current.add(key)
      const records = [...new Set(keys.map((key) => key.split(' ', 1)[0] ?? ''))]
      if (records.length > 0)
        // Without details, a row shows the error code or nothing.
        void requestRows(records, withInputs).then(
          (calls) => list.addDetails(calls),
          () => {},
        )
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [wanted, withInputs, list])
}

function lacksDetails(row: CallRow, withInputs: boolean): boolean {
  if (row.protocol === undefined || (withInputs && row.input_summary === undefined)) return true
  return row.error_code !== null && row.error_message === undefined
}

/** The key includes the state, because a call gets its message when it ends. */
function keyOf({ record, state, attempt }: CallRow, withInputs: boolean): string {
  return `${record} ${state} ${attempt} ${withInputs ? 'input' : ''}`
}
