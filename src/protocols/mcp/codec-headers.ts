import type { JsonValue } from '#core/json'
import { headerText } from '#protocols/header-text'
import { HEADERS, NEW_REVISION } from './wire.ts'

export type RequestHeaders = Readonly<Record<string, string | undefined>>

const DATE = /^\d{4}-\d{2}-\d{2}$/
const SENTINEL = /^=\?base64\?(.*)\?=$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const SURROUNDING_SPACE = /^[ \t]|[ \t]$/
const SURROUNDING_SPACES = /^[ \t]+|[ \t]+$/g

/** Names ignore case, values do not; spaces and tabs around them are no part of them (MCP-35). */
export function headerOf(headers: RequestHeaders, name: string): string | undefined {
  const value = headers[name]
  return value === undefined || !SURROUNDING_SPACE.test(value)
    ? value
    : value.replaceAll(SURROUNDING_SPACES, '')
}

/** T-9: the known revision, or a date later than it. */
export function isNewVersionHeader(version: string | undefined): boolean {
  return version === NEW_REVISION || (version !== undefined && DATE.test(version) && version > NEW_REVISION)
}

/** The text a header stands for; `undefined` for a sentinel that is not base64 of UTF-8 (§1.3). */
export function decodeHeaderValue(value: string): string | undefined {
  const encoded = SENTINEL.exec(value)?.[1]
  if (encoded === undefined) return headerText(value)
  if (!BASE64.test(encoded)) return undefined
  try {
    const bytes = Uint8Array.from(atob(encoded), (unit) => unit.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Row 12: what the headers of a new-era request must repeat; the problem, or nothing. */
export function checkStandardHeaders(
  headers: RequestHeaders,
  asked: { readonly method: string; readonly name: JsonValue | undefined },
): string | undefined {
  if (headerOf(headers, HEADERS.version) === undefined) return 'MCP-Protocol-Version is missing'
  const method = headerOf(headers, HEADERS.method)
  if (method === undefined) return 'Mcp-Method is missing'
  if (method !== asked.method) return 'Mcp-Method does not match method'
  if (asked.method !== 'tools/call') return undefined
  const name = headerOf(headers, HEADERS.name)
  if (name === undefined) return 'Mcp-Name is missing'
  const decoded = decodeHeaderValue(name)
  if (decoded === undefined) return 'Mcp-Name is not valid base64 of UTF-8'
  return decoded === asked.name ? undefined : 'Mcp-Name does not match params.name'
}
