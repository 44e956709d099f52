import { useEffect, useMemo, useRef, useState } from 'react'
import { FILTERS, ORDERS, type Order, type ToolFilters } from '../../api/tools.ts'
import { quoted } from '../../app/commands.ts'
import { useSearchState } from '../../app/search-state.ts'

/*
 * The query of the catalog, which is kept in the address. Used by `filters.tsx` and `page.tsx`. Typed text reaches the address a
 * moment later.
 */

export interface ToolQuery {
  readonly text: string
  readonly filters: ToolFilters
  readonly order: Order | undefined
  /** Whether any filter is set. */
  readonly isNarrow: boolean
  readonly command: string
  setText(text: string): void
  setFilter(name: FilterName, values: readonly string[]): void
  setOrder(order: Order | undefined): void
  clear(): void
  /** Writes a pending change of the text to the address, before the page is left. */
  settle(): Promise<void>
}

export type FilterName = keyof ToolFilters

export const FILTER_NAMES = ['source', ...Object.keys(FILTERS)].filter(isFilterName)

/** Typed text counts at once and reaches the address a moment later, because browsers limit changes of the address. */
const ADDRESS_LAG_MS = 250

export function useToolQuery(): ToolQuery {
  const [search, change] = useSearchState()
  const written = search.q ?? ''
  const [text, setText] = useState(written)
  const lastWritten = useRef(written)
  useEffect(() => {
    // Back, forward or a link: the address wins.
    if (written === lastWritten.current) return
    lastWritten.current = written
    setText(written)
  }, [written])
  useEffect(() => {
    if (text === lastWritten.current) return undefined
    const timer = setTimeout(() => {
      // `settle` has already written the text, and the person may have opened a tool.
      if (text === lastWritten.current) return
      lastWritten.current = text
      change({ q: text })
    }, ADDRESS_LAG_MS)
    return () => clearTimeout(timer)
  }, [text, change])

  // The filters stay the same object while a person types.
  const set = JSON.stringify(FILTER_NAMES.map((name) => search[name] ?? ''))
  const filters = useMemo(() => readFilters(JSON.parse(set)), [set])
  const order = ORDERS.find((known) => known === search.sort)
  const isNarrow = text.trim() !== '' || FILTER_NAMES.some((name) => (filters[name]?.length ?? 0) > 0)
  return {
    ...{ text, filters, order, isNarrow },
    command: commandFor(text, filters, order),
    setText,
    setFilter: (name, values) => change({ [name]: values.join(',') }, { isStep: true }),
    setOrder: (next) => change({ sort: next }, { isStep: true }),
    clear() {
      lastWritten.current = ''
      setText('')
      change({ q: '', ...Object.fromEntries(FILTER_NAMES.map((name) => [name, ''])) }, { isStep: true })
    },
    async settle() {
      if (text === lastWritten.current) return
      lastWritten.current = text
      await change({ q: text })
    },
  }
}

/** Reads the filters from their texts in the address, in the order of `FILTER_NAMES`. */
function readFilters(written: readonly string[]): ToolFilters {
  return Object.fromEntries(
    FILTER_NAMES.map((name, at) => [name, (written[at] ?? '').split(',').filter((word) => word !== '')]),
  )
}

function isFilterName(name: string): name is FilterName {
  return name === 'source' || name in FILTERS
}

/** The query as a command. */
export function commandFor(text: string, filters: ToolFilters, order: Order | undefined): string {
  const words = text.split(/\s+/).filter((word) => word !== '')
  const options = FILTER_NAMES.flatMap((name) => {
    const values = filters[name] ?? []
    return values.length === 0 ? [] : [`--${name}`, quoted(values.join(','))]
  })
  const sorted = order === undefined ? [] : ['--sort', order]
  // A word with a leading dash would be read as an option.
  const dashed = words.some((word) => word.startsWith('-')) ? ['--'] : []
  return ['collet tools', ...options, ...sorted, ...dashed, ...words.map(quoted)].join(' ')
}
