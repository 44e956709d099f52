/*
 * Makes random ids for new calls. Used by several pages. Browsers offer `crypto.randomUUID` only over https or on localhost; this
 * works on every page.
 */

export function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  // Sets the version and variant bits of a random UUID (RFC 9562, version 4).
  const marked = bytes.map((byte, at) =>
    at === 6 ? (byte & 0x0f) | 0x40 : at === 8 ? (byte & 0x3f) | 0x80 : byte,
  )
  const hex = [...marked].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
