import { queryOptions } from '@tanstack/react-query'
import { request, send } from './client.ts'
import { readEvents } from './live.ts'

/** What came of a check of the whole journal. */
export interface JournalCheck {
  readonly ok: boolean
  readonly at: string
  readonly took_ms: number
  readonly chains: number
  readonly groups: number
  readonly events: number
  readonly rows: number
  readonly heads: readonly { readonly writer: string; readonly group: number; readonly link: string }[]
  readonly first_bad: { readonly writer: string; readonly group: number; readonly reason: string } | null
  readonly bad_rows: readonly { readonly row: string; readonly reason: string }[]
  readonly cannot_see: readonly string[]
}

interface JournalState {
  readonly last: JournalCheck | null
  readonly chains: number
  readonly checking: boolean
}

/** The newest check that this page knows; each server process remembers only its own. */
let newest: JournalCheck | null = null

export const journalQuery = queryOptions({
  queryKey: ['journal'],
  async queryFn({ signal }) {
    const state = await request<JournalState>('/admin/journal', { signal })
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
  readonly checked: number
  readonly groups: number
}

/** Checks the journal; aborting `signal` stops it. Throws the server's message if the check did not finish. */
export async function verifyJournal(
  onProgress: (progress: CheckProgress) => void,
  signal: AbortSignal,
): Promise<JournalCheck> {
  const headers = { accept: 'text/event-stream' }
  const { body } = await send('/admin/journal/verify', { method: 'POST', body: {}, headers, signal })
  for await (const { type, data } of readEvents(body)) {
    if (type === 'progress') onProgress(JSON.parse(data))
    if (type === 'verified') {
      const check: JournalCheck = JSON.parse(data)
      newest = check
      return check
    }
    if (type === 'stopped') throw new Error(stoppedWords(JSON.parse(data)))
  }
  throw new Error('The connection broke before the journal was checked to its end.')
}

function stoppedWords({ message }: { readonly message?: string }): string {
  return message ?? 'The server stopped the check.'
}
