import { pipeline, type Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import type { ToolError } from '#core/errors'
import { upstreamFailed } from './egress-fault.ts'

const MOST_ENCODINGS = 3

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
  if (makers.length > MOST_ENCODINGS)
    throw upstreamFailed({ developerMessage: 'Too many content encodings.' })
  const known = makers.filter((make) => make !== undefined)
  return known.length === makers.length ? known.map((make) => make()) : []
}

export interface BodyLimits {
  readonly contentEncoding: string | null
  readonly maxResponseBytes: number
}

export interface BodyEnd {
  /** What the reader gets for an error of the connection or of a decoder. */
  explain(error: unknown): unknown
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
          controller.error(end.explain(failure ?? error))
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
  return upstreamFailed({
    developerMessage: `The response is larger than ${most} bytes (egress.maxResponseBytes).`,
  })
}
