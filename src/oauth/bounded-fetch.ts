export interface FetchBounds {
  readonly timeoutMs: number
  readonly mostBytes: number
}

/** Answers of authorization servers are small and quick; anything else is cut off. Redirects are not followed. */
export function boundedFetch(send: typeof fetch, { timeoutMs, mostBytes }: FetchBounds): typeof fetch {
  return async (resource, init) => {
    const limit = AbortSignal.timeout(timeoutMs)
    const signal = init?.signal == null ? limit : AbortSignal.any([limit, init.signal])
    const response = await send(resource, { ...init, signal, redirect: 'manual' })
    const body = await readUpTo(response, mostBytes)
    const { status, statusText, headers } = response
    return new Response(mayHaveBody(status) ? body : null, { status, statusText, headers: plain(headers) })
  }
}

async function readUpTo(response: Response, mostBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > mostBytes) throw new Error(`an answer is larger than ${mostBytes} bytes`)
    chunks.push(chunk)
  }
  return Uint8Array.from(Buffer.concat(chunks))
}

/** The body is already decoded, and has another length. */
function plain(headers: Headers): Headers {
  const copy = new Headers(headers)
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) copy.delete(name)
  return copy
}

function mayHaveBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304
}
