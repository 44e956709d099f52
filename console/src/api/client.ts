import { createStore } from '../store.ts'
import { connection } from './connection.ts'
import { addressOf, sessionToken } from './session-token.ts'

/**
 * One request to the server that sent the page. `path` is from the server's root: `/admin/calls`. Throws an `ApiError` with the
 * server's own sentence; a session that has ended also sets `sessionGone`.
 */
export async function request<Answer>(path: string, options: RequestOptions = {}): Promise<Answer> {
  const response = await send(path, options)
  const text = await response.text()
  // The server is of the same build as this page, so that the shape of its answer is believed. An answer 204 has none.
  const answer: Answer = JSON.parse(text === '' ? 'null' : text)
  return answer
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** For those that answer 401 as a matter of course: no dialog comes up. */
  readonly mayBeSignedOut?: boolean
}

/** The same, with the answer as it is: for streams, and for what shows status and headers. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const token = sessionToken.get()
  const response = await reach(path, options)
  if (response.ok) return response
  if (response.status === 401 && options.mayBeSignedOut !== true) {
    // A late answer to a request of the session before says nothing about the one that has begun since.
    if (sessionToken.get() === token) sessionGone.set(true)
    // To a program the server says which header to send; a person has no use for that.
    throw new ApiError(401, 'Your session has ended. Sign in to go on.')
  }
  throw await toApiError(response)
}

/** The same, where an answer of any status is an answer: Try it shows them all. */
export async function reach(path: string, options: RequestOptions = {}): Promise<Response> {
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
    throw new ApiError(0, 'The server does not answer.')
  }
}

/** What the server said when it did not do what it was asked. `status` 0: it did not answer. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** True from an answer 401 until somebody signs in again. The page stays as it is below the dialog. */
export const sessionGone = createStore(false)

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
