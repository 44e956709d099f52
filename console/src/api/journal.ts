import { queryOptions } from '@tanstack/react-query'
import type { JournalCheck, JournalState } from '../../../src/admin-api/server.ts'
import { fetchOk, requestJson } from './client.ts'
import { readEvents } from './live.ts'

/*
 * The newest check of the journal, and the request that runs one. Used by `app/page-command.tsx` and `places/settings/journal.tsx`.
 * A check ends when its signal aborts.
 */

export type { JournalCheck } from '../../../src/admin-api/server.ts'

/** The newest check that this page has seen, because each server process remembers only the checks it ran itself. */
let newest: JournalCheck | null = null

export const journalQuery = queryOptions({
  queryKey: ['journal'],
  async queryFn({ signal }) {
    const state = await requestJson<JournalState>('/admin/journal', { signal })
    newest = newerOf(newest, state.last)
    return { ...state, last: newest }
  },
  staleTime: 30_000,
})

function newerOf(one: JournalCheck | null, other: JournalCheck | null): JournalCheck | null {
  if (one === null || other === null) return one ?? other
  return one.at < other.at ? other : one
}

export interface CheckProgress {
  /** Number of commit groups checked so far. */
  readonly checked: number
  /** Number of all commit groups. */
  readonly groups: number
}

/** Checks the journal until `signal` aborts. Throws the server's message if the check did not finish. */
export async function verifyJournal(
  onProgress: (progress: CheckProgress) => void,
  signal: AbortSignal,
): Promise<JournalCheck> {
  const headers = { accept: 'text/event-stream' }
  const { body } = await fetchOk('/admin/journal/verify', { method: 'POST', body: {}, headers, signal })
  for await (const { type, data } of readEvents(body)) {
    if (type === 'progress') onProgress(JSON.parse(data))
    if (type === 'verified') {
      const check: JournalCheck = JSON.parse(data)
      newest = check
      return check
    }
    if (type === 'stopped') throw new Error(stopMessage(JSON.parse(data)))
  }
  throw new Error('The connection broke before the check finished.')
}

function stopMessage({ message }: { readonly message?: string }): string {
  return message ?? 'The server stopped the check.'
}
