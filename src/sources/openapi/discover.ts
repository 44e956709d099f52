import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { fault } from '#kernel/base/errors'
import { shownAddress } from '#sources/common/options'
import type { Discovery, OfferedTool, SourceServices } from '#sources/kit/source'
import { beginsAsJson, type ResourceReader, readReferred, readRoot, Unreadable } from './load.ts'
import type { OpenapiOptions } from './options.ts'
import { type DocumentReading, type ReadingRequest, type ReadingWays, readDocument } from './reading.ts'

/** A few milliseconds of work between two pauses; longer texts are read in another thread. */
const MAX_LENGTH_HERE = { json: 100_000, yaml: 10_000 } as const

interface DiscoverRequest {
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
  return bytes.length <= MAX_LENGTH_HERE[isJson ? 'json' : 'yaml']
    ? readDocument({ ...request, takeText: () => bytes.toString('utf8') }, ways)
    : readElsewhere({ ...request, bytes }, ways, signal)
}

const DIGESTED_AT_ONCE = 1_048_576

/** In short turns, because a document may have 64 MiB, and without another copy of it. */
async function digestOf(bytes: Buffer): Promise<string> {
  const digest = createHash('sha256')
  for (let from = 0; from < bytes.length; from += DIGESTED_AT_ONCE) {
    digest.update(bytes.subarray(from, from + DIGESTED_AT_ONCE))
    await setImmediate()
  }
  return digest.digest('base64url')
}

/** `method` may come from a pin of before. */
export function isWantedMethod(method: unknown, { methods }: Pick<OpenapiOptions, 'methods'>): boolean {
  return methods?.some((wanted) => wanted === method) ?? true
}

const IS_SOURCE = import.meta.url.endsWith('.ts')
const WORKER_FILE = IS_SOURCE ? './reading-worker.ts' : './reading-worker.js'
const WORKER_MEGABYTES = 1_024
/** New values of the thread; with more room for them the memory of a large document is found later, and grows meanwhile. */
const WORKER_YOUNG_MEGABYTES = 6

/** What the thread is given: the text is unpacked over there. */
export interface WorkerData extends Omit<ReadingRequest, 'takeText'> {
  readonly bytes: Uint8Array
}

export type FromWorker =
  | { readonly type: 'read'; readonly id: number; readonly url: string }
  /** Answered when they are taken, so that they do not all arrive in one turn. */
  | { readonly type: 'tools'; readonly id: number; readonly tools: readonly OfferedTool[] }
  | { readonly type: 'done'; readonly reading: DocumentReading }
  | { readonly type: 'failed'; readonly message: string; readonly developerMessage: string | undefined }

export interface ToWorker {
  readonly id: number
  readonly text?: string
  readonly unreadable?: string
}

/** Reads a document in another thread, so that calls go on; ends with the signal, whatever the document does to the reader. */
async function readElsewhere(
  data: WorkerData,
  ways: ReadingWays,
  signal: AbortSignal,
): Promise<DocumentReading> {
  signal.throwIfAborted()
  const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
    workerData: data,
    // Handed over and not copied, where nothing else lies in the same memory; nobody here needs the text any more.
    transferList: ownMemoryOf(data.bytes),
    resourceLimits: {
      maxOldGenerationSizeMb: WORKER_MEGABYTES,
      maxYoungGenerationSizeMb: WORKER_YOUNG_MEGABYTES,
    },
    // From source the rooms are found by this condition, no matter what started the process.
    ...(IS_SOURCE
      ? { execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'] }
      : {}),
  })
  const { promise, resolve, reject } = Promise.withResolvers<DocumentReading>()
  const answer = async (message: FromWorker): Promise<void> => {
    if (message.type === 'done') resolve(message.reading)
    else if (message.type === 'failed')
      reject(
        fault('upstream_failed', message.message, {
          ...(message.developerMessage === undefined ? {} : { developerMessage: message.developerMessage }),
        }),
      )
    else worker.postMessage(await reply(message, ways))
  }
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  worker.on('message', (message: FromWorker) => void answer(message).catch(reject))
  worker.once('error', (cause) =>
    reject(fault('upstream_failed', 'The document takes too much to read.', { cause })),
  )
  worker.once('exit', () =>
    reject(fault('upstream_failed', 'The reader of the document ended without an answer.')),
  )
  try {
    return await promise
  } finally {
    signal.removeEventListener('abort', abort)
    await worker.terminate()
  }
}

function ownMemoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : []
}

async function reply(message: Extract<FromWorker, { id: number }>, ways: ReadingWays): Promise<ToWorker> {
  const { id } = message
  if (message.type === 'tools') {
    await ways.offer(message.tools)
    return { id }
  }
  try {
    return { id, text: await ways.read(message.url) }
  } catch (error) {
    if (error instanceof Unreadable) return { id, unreadable: error.message }
    throw error
  }
}
