/** Header names that mean the same on every protocol, in lower case as requests are read. */
export const IDEMPOTENCY_KEY_HEADER = 'idempotency-key'
export const CALL_ID_HEADER = 'collet-call-id'
export const ERROR_CODE_HEADER = 'collet-error-code'

const HEADER_SAFE = /^[\x21-\x24\x26-\x7e]*$/
const HEADER_UNSAFE = /[^\x21-\x24\x26-\x7e]/gu

/**
 * A call id as a header value: everything but visible ASCII, and `%` itself, is percent-encoded UTF-8, so
 * `decodeURIComponent` gives back the exact id and no id can end the header line.
 */
export function callIdToHeader(callId: string): string {
  return HEADER_SAFE.test(callId) ? callId : callId.toWellFormed().replace(HEADER_UNSAFE, encodeURIComponent)
}
