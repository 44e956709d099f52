import { pipeline, type Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { fault, NOT_SHOWN_ADVICE, type ToolError } from '#kernel/base/errors'
import { denied, upstreamFailed } from './policy.ts'

const MAX_ENCODINGS = 3

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
])

/** The decoders of a `content-encoding`, in the order they apply; none if one of them is unknown, as in `fetch`. */
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

interface BodyLimits {
  readonly contentEncoding: string | null
  readonly maxResponseBytes: number
}

interface BodyEnd {
  /** What the reader gets for an error of the connection or of a decoder. */
  toFailure(error: unknown): unknown
  /** Called once, when there is nothing more to read. */
  settled(): void
}

/** The decoded body; it errors past the limit, counted before and after each decoder. */
export function limitBody(source: Readable, limits: BodyLimits, end: BodyEnd): ReadableStream<Uint8Array> {
  const { maxResponseBytes } = limits
  const decoders = decodersFor(limits.contentEncoding)
  const first = countTo(maxResponseBytes)
  const stages = [first, ...decoders.flatMap((decoder) => [decoder, countTo(maxResponseBytes)])]
  const last = stages.at(-1) ?? first
  // Errors reach the reader, who may come late or never.
  for (const stream of [source, ...stages]) stream.on('error', () => undefined)
  let failure: unknown
  pipeline([source, ...stages], (error) => {
    failure = error ?? undefined
    if (error) last.destroy(error)
    end.settled()
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
          controller.error(end.toFailure(failure ?? error))
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

function countTo(most: number): Transform {
  let count = 0
  return new Transform({
    transform(chunk: Uint8Array, _encoding, done) {
      count += chunk.length
      if (count > most) done(tooLarge(most))
      else done(null, chunk)
    },
  })
}

export function tooLarge(most: number): ToolError {
  return fault(
    'upstream_failed',
    `The service behind the tool answered, but with more than ${most} bytes, so the answer is not shown. ${NOT_SHOWN_ADVICE} An operator can raise \`egress.maxResponseBytes\`.`,
    { developerMessage: `The response is larger than ${most} bytes (egress.maxResponseBytes).` },
  )
}

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

/** The same for headers that are no object of `fetch`. No encoding is asked for: what is small gains nothing by it. */
export function plainHeaders(given: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'user-agent': DEFAULTS['user-agent'] }
  for (const name of Object.keys(given)) {
    const value = given[name]
    if (name === 'upgrade') throw denied('Connection upgrades are refused.')
    if (value !== undefined && !NOT_SENT.has(name)) headers[name] = value
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
