import { resolve } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Discovery, OfferedTool, SourceServices } from '#core/ports/source'
import { shownAddress } from '#sources/common/shown-address'
import type { OpenapiOptions } from './options.ts'
import { beginsAsJson } from './parse-text.ts'
import { type ResourceReader, readReferred, readRoot } from './read-resource.ts'
import { type DocumentReading, type ReadingWays, readDocument } from './reading.ts'
import { readElsewhere } from './reading-thread.ts'

/** A few milliseconds of work between two pauses; longer texts are read in another thread. */
const LONGEST_HERE = { json: 100_000, yaml: 10_000 } as const

export interface DiscoverRequest {
  readonly key: string
  readonly options: OpenapiOptions
  readonly services: SourceServices
  readonly signal: AbortSignal
}

/** What was read, and from which text: the same text need not be read into tools again. */
export interface Discovered {
  /** `undefined` where other documents belong to it. */
  readonly digest: string | undefined
  readonly discovery: Discovery
  /** Operations that the operator's filters leave out. */
  readonly unwanted: ReadonlySet<string>
}

/** Reads the document and offers each wanted operation as a tool; gives `known` when it is still that text. */
export async function discover(request: DiscoverRequest, known: Discovered | undefined): Promise<Discovered> {
  const { options, services, signal } = request
  const reader: ResourceReader = { services, headers: options.headers, signal }
  const { url, file = '' } = options
  const root = await readRoot(url === undefined ? { file: resolve(services.folder, file) } : { url }, reader)
  const digest = `${root.url} ${await digestOf(root.bytes)}`
  if (digest === known?.digest) return known
  const tools: OfferedTool[] = []
  const reading = await read(
    { ...request, ...root },
    {
      read: async (referred) => (await readReferred(referred, root.url, reader)).bytes.toString('utf8'),
      offer: async (some) => {
        tools.push(...some)
        await setImmediate()
        signal.throwIfAborted()
      },
    },
  )
  const identity = { document: url === undefined ? file : shownAddress(url) }
  return {
    digest: reading.isAlone ? digest : undefined,
    discovery: { identity, tools, warnings: reading.warnings, leftOut: reading.unwanted },
    unwanted: new Set(reading.unwanted),
  }
}

function read(
  { key, url, bytes, options, signal }: DiscoverRequest & { readonly url: string; readonly bytes: Buffer },
  ways: ReadingWays,
): Promise<DocumentReading> {
  // Secrets stay in this thread; nobody who reads a document needs them.
  const request = { key, url, options: { ...options, headers: {} } }
  const isJson = beginsAsJson(bytes.subarray(0, 100).toString('utf8'))
  return bytes.length <= LONGEST_HERE[isJson ? 'json' : 'yaml']
    ? readDocument({ ...request, text: bytes.toString('utf8') }, ways)
    : readElsewhere({ ...request, bytes }, ways, signal)
}

/** Off the serving thread: a document may have 64 MiB. */
async function digestOf(bytes: Buffer): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Uint8Array.from(bytes))).toString('base64url')
}

/** `method` may come from a pin of before. */
export function isWantedMethod(method: unknown, { methods }: Pick<OpenapiOptions, 'methods'>): boolean {
  return methods?.some((wanted) => wanted === method) ?? true
}
