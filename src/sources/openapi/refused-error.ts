import { fault, type ToolError } from '#core/errors'
import { isTextual } from './media-type.ts'
import { readStart } from './read-bounded.ts'

const MOST_EXCERPT_BYTES = 4_096
const LONGEST_EXCERPT = 600
const LONGEST_WAIT_MS = 24 * 3_600_000

export interface RefusedContext {
  /** `GET /pets/{petId}`. */
  readonly operation: string
  readonly nowMs: number
  redact(text: string): string
}

/** What an agent gets for an answer that is no success: the status, what to do, and how the service put it. */
export async function refusedError(response: Response, context: RefusedContext): Promise<ToolError> {
  const { status } = response
  const excerpt = await readExcerpt(response, context)
  const message = `${context.operation} answered ${status}${adviceFor(status)}${excerpt === '' ? '.' : `: ${excerpt}`}`
  // Rule 9: these two say that the request was turned away.
  if (status === 429 || status === 503) {
    const retryAfterMs = retryAfter(response.headers.get('retry-after'), context.nowMs)
    return fault('upstream_failed', message, {
      canRetry: true,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    })
  }
  return fault(status >= 500 ? 'upstream_failed' : 'tool_failed', message)
}

function adviceFor(status: number): string {
  if (status < 400) return ' (a redirect, which is not followed)'
  if (status === 400 || status === 422) return ' (the service does not accept this input: correct it)'
  if (status === 401) return ' (the service does not accept the credential)'
  if (status === 403) return ' (the credential does not allow this)'
  if (status === 404 || status === 410) return ' (there is nothing under these parameters)'
  if (status === 409 || status === 412) return ' (the state there is another: read it first)'
  if (status === 429) return ' (too many requests: wait)'
  if (status === 503) return ' (not available right now: wait)'
  return ''
}

async function readExcerpt(response: Response, { redact }: RefusedContext): Promise<string> {
  const mediaType = response.headers.get('content-type') ?? 'text/plain'
  if (!isTextual(mediaType)) {
    await response.body?.cancel()
    return ''
  }
  try {
    const { bytes } = await readStart(response, MOST_EXCERPT_BYTES)
    // Redacted before it is cut, so that no half of a credential is left.
    const text = redact(bytes.toString('utf8'))
      .replaceAll(/\p{Cc}+|\s+/gu, ' ')
      .trim()
      .toWellFormed()
    return text.length <= LONGEST_EXCERPT ? text : `${text.slice(0, LONGEST_EXCERPT).toWellFormed()}…`
  } catch {
    return ''
  }
}

/** Seconds or a date (RFC 9110 §10.2.3). */
function retryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null) return undefined
  const waitMs = /^\d{1,9}$/.test(value.trim()) ? Number(value) * 1_000 : Date.parse(value) - nowMs
  return Number.isFinite(waitMs) ? Math.min(Math.max(0, waitMs), LONGEST_WAIT_MS) : undefined
}
