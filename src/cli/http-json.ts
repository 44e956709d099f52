import { cleanText, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { ACTING_AS } from '#server/admin/access'
import { CommandFailure } from './command-failure.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'

/** How long the CLI waits for an answer to one of its own requests. */
const PATIENCE_MS = 30_000

export interface JsonRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly credential: string | undefined
  readonly body?: JsonObject
  /** Told as whom the server let us in, whatever it then answers. */
  readonly onActing?: (principal: string) => void
}

/** Sends one request of our own and gives its JSON object; refusals become failures with the server's words. */
export async function requestJson(request: JsonRequest, send: typeof fetch): Promise<JsonObject> {
  const { method, url, credential, body, onActing } = request
  const response = await send(url, {
    method,
    headers: {
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // A redirect would carry the credential somewhere else.
    redirect: 'manual',
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((cause: unknown) => {
    throw new CommandFailure(EXIT.server, `No answer from ${new URL(url).origin}. Is the server running?`, {
      cause,
    })
  })
  const acting = response.headers.get(ACTING_AS)
  if (acting !== null) onActing?.(decodeURIComponent(acting))
  const answer = parse(await response.text())
  if (response.ok && isJsonObject(answer)) return answer
  throw refusal(response.status, answer, new URL(url).origin)
}

function refusal(status: number, answer: JsonValue | undefined, origin: string): CommandFailure {
  const said =
    isJsonObject(answer) && typeof answer.message === 'string' ? cleanText(answer.message) : undefined
  return new CommandFailure(exitOf(status), said ?? `${origin} answered ${status}. Is it a Collet server?`)
}

/** What was asked for is wrong (2), or the server does not let us or cannot (3). */
function exitOf(status: number): ExitCode {
  return status === 400 || status === 404 || status === 422 ? EXIT.usage : EXIT.server
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
