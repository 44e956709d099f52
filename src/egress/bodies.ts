import { pipeline, type Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { fault, NOT_SHOWN_ADVICE, type ToolError } from '#kernel/base/errors'
import { denied, upstreamFailed } from './policy.ts'

/**
 * Bodies and headers of guarded requests: decoding with a size limit, and the headers that may be sent or shown.
 * `guarded-fetch.ts` uses it for both kinds of request.
 * Invariant: no reader gets more bytes than the policy allows, and no credential is sent to another origin (rule 33).
 */

const MAX_ENCODINGS = 3

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
])

/** Decoders in the order in which they apply; none if one of the encodings is unknown, as in `fetch`. */
function decodersFor(contentEncoding: string | null): readonly Transform[] {
  const names = (contentEncoding ?? '').toLowerCase().split(',')
  const makers = names
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
    .toReversed()
    .map((name) => DECODERS.get(name))
  if (makers.length > MAX_ENCODINGS) throw upstreamFailed({ developerMessage: 'Too many content encodings.' })
  const known = makers.filter((make) => make !== undefined)
  return known.length === makers.length ? known.map((make) => make()) : []
}

interface BodyOptions {
  readonly contentEncoding: string | null
  readonly maxResponseBytes: number
  /** Converts an error of the connection or a decoder to the error that the reader gets. */
  toFailure(error: unknown): unknown
  /** Called once, when the body has ended or failed. */
  settled(): void
}

/** The decoded body, which fails once it exceeds the size limit. The limit applies before and after each decoder. */
export function limitBody(source: Readable, options: BodyOptions): ReadableStream<Uint8Array> {
  const { contentEncoding, maxResponseBytes } = options
  const decoders = decodersFor(contentEncoding)
  const first = limitBytes(maxResponseBytes)
  const stages = [first, ...decoders.flatMap((decoder) => [decoder, limitBytes(maxResponseBytes)])]
  const last = stages.at(-1) ?? first
  // The reader gets errors through `failure`, because it may start to read late or never.
  for (const stream of [source, ...stages]) stream.on('error', () => undefined)
  let failure: unknown
  pipeline([source, ...stages], (error) => {
    failure = error ?? undefined
    if (error) last.destroy(error)
    options.settled()
  })
  const chunks: AsyncIterator<Uint8Array> = last[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await chunks.next()
          if (done === true) controller.close()
          else controller.enqueue(value)
        } catch (error) {
          controller.error(options.toFailure(failure ?? error))
        }
      },
      cancel() {
        source.destroy()
        last.destroy()
      },
    },
    { highWaterMark: 0 },
  )
}

function limitBytes(maxBytes: number): Transform {
  let count = 0
  return new Transform({
    transform(chunk: Uint8Array, _encoding, done) {
      count += chunk.length
      if (count > maxBytes) done(tooLarge(maxBytes))
      else done(null, chunk)
    },
  })
}

export function tooLarge(maxBytes: number): ToolError {
  return fault(
    'upstream_failed',
    `The service behind the tool answered, but with more than ${maxBytes} bytes, so the answer is not shown. ${NOT_SHOWN_ADVICE} An operator can raise \`egress.maxResponseBytes\`.`,
    { developerMessage: `The response is larger than ${maxBytes} bytes (egress.maxResponseBytes).` },
  )
}

/** Headers that concern only the next hop, and `Host` and `Content-Length`, which undici sets. */
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

/** The headers that another origin may get. Any other header may be a credential. */
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

/** Connection upgrades are refused (OWP-81). */
export function outgoingHeaders(requested: Headers): Headers {
  const named = connectionOptions(requested.get('connection'))
  if (requested.has('upgrade') || named.includes('upgrade')) throw denied('Connection upgrades are refused.')
  const headers = new Headers(DEFAULTS)
  for (const [name, value] of requested) {
    if (!NOT_SENT.has(name) && !named.includes(name)) headers.set(name, value)
  }
  return headers
}

/** `outgoingHeaders` for plain objects. No encoding is requested, because small bodies gain nothing from it. */
export function plainHeaders(requested: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'user-agent': DEFAULTS['user-agent'] }
  for (const name of Object.keys(requested)) {
    const value = requested[name]
    if (name === 'upgrade') throw denied('Connection upgrades are refused.')
    if (value !== undefined && !NOT_SENT.has(name)) headers[name] = value
  }
  return headers
}

/** Removes credentials, which must not be sent to another origin (rule 33). */
export function headersForOtherOrigin(headers: Headers): Headers {
  return new Headers([...headers].filter(([name]) => SENT_ANYWHERE.has(name)))
}

/** The received headers, without those that concern only the last hop. */
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

/** `Headers` accepts only one-byte characters. */
function toByteString(text: string): string {
  return /^[\0-\xff]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}
