import type { Fetch } from './http-exchange.ts'

/** Remembers the last answer to each `GET` that had an `ETag`, and asks only whether it still holds. */
export function unchangedFetch(send: Fetch): Fetch {
  const known = new Map<string, { readonly etag: string; readonly text: string; readonly headers: Headers }>()
  return async (url, init) => {
    if (init.method !== 'GET') return await send(url, init)
    const last = known.get(url)
    const headers = new Headers(init.headers)
    if (last !== undefined) headers.set('if-none-match', last.etag)
    const response = await send(url, { ...init, headers })
    if (response.status === 304 && last !== undefined) {
      return new Response(last.text, { status: 200, headers: last.headers })
    }
    const etag = response.headers.get('etag')
    if (response.status !== 200 || etag === null) return response
    const text = await response.text()
    const kept = new Headers(response.headers)
    // The text is decoded and whole now.
    for (const name of ['content-encoding', 'content-length']) kept.delete(name)
    known.set(url, { etag, text, headers: kept })
    return new Response(text, { status: 200, headers: kept })
  }
}
