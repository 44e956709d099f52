import type { CallError } from '#core/outcome'
import type { CallRequest } from './call-request.ts'

/** Shorter values would cut ordinary words apart, and are no secrets. */
const SHORTEST_SECRET = 4
const REDACTED = '[redacted]'

/** A tool's own error text without the credentials of its call (T-20). */
export function redactSecrets(error: CallError, request: CallRequest): CallError {
  const clean = cleanerOf(request)
  if (clean === undefined) return error
  return {
    ...error,
    message: clean(error.message),
    ...(error.developerMessage === undefined ? {} : { developerMessage: clean(error.developerMessage) }),
    ...(error.additionalPromptContent === undefined
      ? {}
      : { additionalPromptContent: clean(error.additionalPromptContent) }),
  }
}

/** Any thrown value as an error for the log, without the credentials of its call. */
export function redactThrown(thrown: unknown, request: CallRequest): unknown {
  const clean = cleanerOf(request)
  if (clean === undefined || !(thrown instanceof Error))
    return clean === undefined ? thrown : clean(String(thrown))
  const { name, message, stack, cause } = thrown
  const copy = new Error(
    clean(message),
    cause === undefined ? undefined : { cause: redactThrown(cause, request) },
  )
  return Object.assign(copy, { name, stack: clean(stack ?? '') })
}

/** Cuts the call's credentials out of a text; `undefined` when it has none. */
function cleanerOf(request: CallRequest): ((text: string) => string) | undefined {
  const values = [...request.tokens.values(), ...request.secrets.values()]
    .map((secret) => secret.reveal())
    .filter((value) => value.length >= SHORTEST_SECRET)
  if (values.length === 0) return undefined
  return (text) => values.reduce((rest, value) => rest.replaceAll(value, REDACTED), text)
}
