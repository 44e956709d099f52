import { denied } from './egress-fault.ts'

/** They speak to the next hop, not to the service; `Host` is the URL's alone. */
const NOT_SENT: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
])

const NOT_SHOWN: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** What another origin may see. Any other header may be a credential, under whatever name a service gave it. */
const SENT_ANYWHERE: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'if-modified-since',
  'if-none-match',
  'range',
  'traceparent',
  'tracestate',
  'user-agent',
])

const DEFAULTS = { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'collet' }

/** The headers that leave; a wish to leave HTTP is refused (OWP-81). */
export function outgoingHeaders(given: Headers): Headers {
  const named = connectionOptions(given.get('connection'))
  if (given.has('upgrade') || named.includes('upgrade')) throw denied('Connection upgrades are refused.')
  const headers = new Headers(DEFAULTS)
  for (const [name, value] of given) {
    if (!NOT_SENT.has(name) && !named.includes(name)) headers.set(name, value)
  }
  return headers
}

/** Rule 33: credentials do not go along to another origin. */
export function headersForOtherOrigin(headers: Headers): Headers {
  return new Headers([...headers].filter(([name]) => SENT_ANYWHERE.has(name)))
}

/** Response headers as the caller sees them. */
export function incomingHeaders(
  received: Readonly<Record<string, string | readonly string[] | undefined>>,
): Headers {
  const connection = received.connection
  const named = connectionOptions(typeof connection === 'string' ? connection : null)
  const headers = new Headers()
  for (const [name, value] of Object.entries(received)) {
    if (value === undefined || NOT_SHOWN.has(name) || named.includes(name)) continue
    for (const text of typeof value === 'string' ? [value] : value) headers.append(name, toByteString(text))
  }
  return headers
}

function connectionOptions(value: string | null): readonly string[] {
  return (value ?? '').split(',').map((option) => option.trim().toLowerCase())
}

/** `Headers` take bytes as characters. */
function toByteString(text: string): string {
  return /^[\0-\xff]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}
