import { createStore } from '../store.ts'
import { connection } from './connection.ts'
import { addressOf, sessionToken } from './session-token.ts'

/**
 * Sends a request to the server of this page. `path` starts at the server's root: `/admin/calls`. Throws an `ApiError`: with the
 * server's message, or with a fixed text if the session has ended (also sets `sessionEnded`) or there is no response.
 */
export async function requestJson<Answer>(path: string, options: RequestOptions = {}): Promise<Answer> {
  const response = await fetchOk(path, options)
  const text = await response.text()
  // Server and page are from the same build, so the type of the answer is trusted. A 204 has no body.
  const answer: Answer = JSON.parse(text === '' ? 'null' : text)
  return answer
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** Set for requests that may get a 401. The sign-in dialog then stays closed. */
  readonly mayBeSignedOut?: boolean
}

/** Sends a request and returns the response with its body unread. Throws like `requestJson`. */
export async function fetchOk(path: string, options: RequestOptions = {}): Promise<Response> {
  const token = sessionToken.get()
  const response = await fetchResponse(path, options)
  if (response.ok) return response
  if (response.status === 401 && options.mayBeSignedOut !== true) {
    // A late answer to a request from an earlier session does not concern the current session.
    if (sessionToken.get() === token) sessionEnded.set(true)
    // The server's message is about an HTTP header, which does not help a person.
    throw new ApiError(401, 'Your session has ended. Sign in to continue.')
  }
  throw await toApiError(response)
}

/** Sends a request and returns the response, whatever its status. */
export async function fetchResponse(path: string, options: RequestOptions = {}): Promise<Response> {
  const { method = 'GET', body, headers, signal } = options
  const token = sessionToken.get()
  try {
    const response = await fetch(addressOf(path), {
      method,
      headers: {
        accept: 'application/json',
        ...(token === null ? {} : { 'collet-csrf': token }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      credentials: 'same-origin',
      cache: 'no-cache',
    })
    connection.found()
    return response
  } catch (error) {
    if (signal?.aborted === true) throw error
    connection.lost()
    throw new ApiError(0, 'The server is not responding.')
  }
}

/** A request that the server refused or, with `status` 0, did not answer. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** True after a 401, until the next sign-in or until the sign-in dialog is closed. The page stays visible behind the dialog. */
export const sessionEnded = createStore(false)

async function toApiError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  return new ApiError(response.status, messageIn(text) ?? `The server answered ${response.status}.`)
}

function messageIn(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text)
    if (typeof body !== 'object' || body === null) return undefined
    if ('message' in body && typeof body.message === 'string') return body.message
    return 'error' in body ? messageIn(JSON.stringify(body.error)) : undefined
  } catch {
    return undefined
  }
}
