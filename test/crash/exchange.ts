export interface Address {
  readonly url: string
  readonly apiKey: string
  /** How long an answer may take before its asker gives up. */
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

/** One request; `undefined` when the connection broke before a whole answer came. */
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
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch {
    return undefined
  }
}
