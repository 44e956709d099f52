import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

/*
 * Keeps the state of a page in its URL, so that it can be shared. Used by several pages. Empty values are left out.
 */

/** The page state kept in the URL: query parameters by name. */
export type SearchState = Readonly<Record<string, string>>

/**
 * Reads and changes the page's state in the address. A change replaces the history entry; with `isStep` it adds an entry, so that
 * Back undoes it.
 */
export function useSearchState(): [
  SearchState,
  (patch: SearchPatch, options?: { isStep?: boolean }) => Promise<void>,
] {
  const search: SearchState = useSearch({ strict: false })
  const navigate = useNavigate()
  const change = useCallback(
    (patch: SearchPatch, { isStep = false } = {}) =>
      navigate({
        to: '.',
        search: (before: SearchState) => clean({ ...before, ...patch }),
        replace: !isStep,
      }),
    [navigate],
  )
  return [search, change]
}

export type SearchPatch = Readonly<Record<string, string | undefined>>

export function readSearch(text: string): SearchState {
  return Object.fromEntries(new URLSearchParams(text))
}

export function writeSearch(search: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(search).map(([name, value]) => [name, String(value ?? '')])
  const text = new URLSearchParams(entries.filter(([, value]) => value !== '')).toString()
  return text === '' ? '' : `?${text}`
}

function clean(search: SearchPatch): SearchState {
  return Object.fromEntries(
    Object.entries(search).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
    ),
  )
}
