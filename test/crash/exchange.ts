export interface Address {
  readonly url: string
  readonly apiKey: string
  /** Timeout of a request. */
  readonly limitMs: number
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export interface Question {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** After a pause a server finds requests that did not arrive in time: it accepts none of them and closes the connection. */
const REQUEST_TIMEOUT = 408

/** One request; `undefined` if the connection broke before the answer was complete. */
export async function exchange(
  { url, apiKey, limitMs }: Address,
  path: string,
  { headers, ...request }: Question,
): Promise<Answer | undefined> {
  try {
    const response = await fetch(`${url}${path}`, {
      ...request,
      headers: {
        ...headers,
        'x-api-key': apiKey,
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      signal: AbortSignal.timeout(limitMs),
    })
    const text = await response.text()
    if (response.status === REQUEST_TIMEOUT) return undefined
    return { status: response.status, headers: response.headers, text }
  } catch {
    return undefined
  }
}
