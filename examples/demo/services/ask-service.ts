import { type ToolContext, ToolError } from 'collet'

/**
 * One request to an external service, for the tools of this demo. It turns every failure into a `ToolError` that
 * states whether the request can have been processed (rule 9).
 */

export interface ServiceRequest {
  /** For messages: `Gmail`. */
  readonly service: string
  readonly url: URL
  readonly init: RequestInit
  /** The service's reason for a refusal, for developers; it comes from outside, so models do not see it. */
  readonly reasonOf: (answer: unknown) => string | undefined
}

/** Sends one request and returns the JSON of a successful answer. */
export async function askService(request: ServiceRequest, context: ToolContext): Promise<unknown> {
  const { service, url, init } = request
  let response: Response
  try {
    // Following a redirect would forward the credential, or send a message twice.
    response = await context.fetch(url, { ...init, redirect: 'manual' })
  } catch (error) {
    const isDenied = error instanceof ToolError && error.code === 'egress_denied'
    throw context.signal.aborted || isDenied ? error : notReached(service, error)
  }
  const answer = await readJson(response, service, context)
  if (response.ok) return answer
  throw refused(request, response, answer)
}

/** Codes of connections that were never made: the request cannot have been processed. */
const NOT_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

function notReached(service: string, error: unknown): ToolError {
  const cause = error instanceof Error ? error.cause : undefined
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  const developerMessage = `No answer from ${service} (${typeof code === 'string' ? code : 'unknown reason'}).`
  if (NOT_CONNECTED.has(code)) {
    return new ToolError(`${service} cannot be reached right now.`, {
      developerMessage,
      canRetry: true,
      cause: error,
    })
  }
  return unclear(service, developerMessage, error)
}

/**
 * After a reset or a broken answer the request may have been processed, so it must not be repeated blindly (rule 9).
 */
function unclear(service: string, developerMessage: string, cause?: unknown): ToolError {
  return new ToolError(`${service} gave no clear answer. Check there before trying again.`, {
    developerMessage,
    cause,
  })
}

function refused({ service, reasonOf }: ServiceRequest, response: Response, answer: unknown): ToolError {
  const { status } = response
  const reason = reasonOf(answer)
  const developerMessage = `${service} answered ${status}${reason === undefined ? '' : `: ${reason.slice(0, 300)}`}`
  if (status === 429 || status === 503) {
    const retryAfterMs = readRetryAfter(response.headers.get('retry-after'))
    return new ToolError(`${service} takes no requests right now.`, {
      developerMessage,
      canRetry: true,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    })
  }
  if (status === 401 || status === 403) {
    return new ToolError(`${service} did not accept the credential.`, { developerMessage })
  }
  if (status >= 400 && status < 500)
    return new ToolError(`${service} refused the request.`, { developerMessage })
  return unclear(service, developerMessage)
}

const MAX_WAIT_MS = 60_000

/** Seconds, or a date. */
function readRetryAfter(text: string | null): number | undefined {
  if (text === null) return undefined
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(0, Math.round(waitMs)), MAX_WAIT_MS)
}

async function readJson(response: Response, service: string, { signal }: ToolContext): Promise<unknown> {
  let text: string
  try {
    text = await response.text()
  } catch (error) {
    throw signal.aborted ? error : unclear(service, `The answer of ${service} broke off.`, error)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!response.ok) return undefined
    throw unclear(service, `${service} answered ${response.status} without JSON.`, error)
  }
}
