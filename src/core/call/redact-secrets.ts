import type { CallError } from '#core/outcome'
import type { CallRequest } from './call-request.ts'

/** Shorter values would cut ordinary words apart, and are no secrets. */
const SHORTEST_SECRET = 4
const REDACTED = '[redacted]'

/** A tool's own error text without the credentials of its call (T-20). */
export function redactSecrets(error: CallError, request: CallRequest): CallError {
  const values = [...request.tokens.values(), ...request.secrets.values()]
    .map((secret) => secret.reveal())
    .filter((value) => value.length >= SHORTEST_SECRET)
  if (values.length === 0) return error
  const clean = (text: string): string =>
    values.reduce((rest, value) => rest.replaceAll(value, REDACTED), text)
  return {
    ...error,
    message: clean(error.message),
    ...(error.developerMessage === undefined ? {} : { developerMessage: clean(error.developerMessage) }),
    ...(error.additionalPromptContent === undefined
      ? {}
      : { additionalPromptContent: clean(error.additionalPromptContent) }),
  }
}
