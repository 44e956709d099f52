import { useCallback, useEffect, useMemo } from 'react'
import { readRange, type TimeRange, writeRange } from '../parts/charts/time-range.ts'
import { useSearchState } from './search-state.ts'

/*
 * The time range that all pages share: it is in the address (`range`), and a page that is opened without one takes the range that
 * was chosen last in this window. Pages with a range use it.
 */

/** The range that was chosen last. It ends with the window, so that a new one starts with the defaults of its pages. */
let lastChosen: string | undefined

/** The range of the page and the function that changes it. `standard` is the range of a page that no range was chosen for. */
export function useTimeRange(standard: string): readonly [TimeRange, (range: TimeRange) => void] {
  const [search, change] = useSearchState()
  const text = search.range
  const range = useMemo(
    () => readRange(text ?? lastChosen ?? '') ?? readRange(standard) ?? LAST_DAY,
    [text, standard],
  )
  // The address names the range that is shown, so that a copied address shows the same.
  useEffect(() => {
    if (text !== undefined) lastChosen = text
    else if (lastChosen !== undefined) void change({ range: lastChosen })
  }, [text, change])
  const setRange = useCallback(
    (next: TimeRange) => void change({ range: writeRange(next) }, { isStep: true }),
    [change],
  )
  return [range, setRange]
}

const LAST_DAY: TimeRange = { last: '24h', lengthMs: 86_400_000 }
