import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { untilAborted } from '#kernel/base/waiting'
import { addressWithoutValues } from '#sources/common/options'
import type { Discovery, OfferedTool, SourceServices } from '#sources/kit/source'
import { beginsAsJson, type ResourceReader, readReferred, readRoot, Unreadable } from './load.ts'
import type { OpenapiOptions } from './options.ts'
import { type DocumentReading, type ReadingCallbacks, type ReadingRequest, readDocument } from './reading.ts'

/**
 * Reads the document of an OpenAPI source, a large one in a worker thread. The source calls it for each discovery.
 * Invariant: reading a document never blocks the serving thread for long.
 */

/** Documents up to these lengths take a few milliseconds to read; longer ones are read in another thread. */
const MAX_LENGTH_HERE = { json: 100_000, yaml: 10_000 } as const

interface DiscoverRequest {
  readonly key: string
  readonly options: OpenapiOptions
  readonly services: SourceServices
  readonly signal: AbortSignal
}

/** The result of reading a document, and the digest of its text, so that an unchanged document is not read again. */
export interface Discovered {
  /** `undefined` if the document refers to other documents, because they may change while its own text does not. */
  readonly digest: string | undefined
  readonly discovery: Discovery
  /** Operations that the operator's filters exclude. */
  readonly unwanted: ReadonlySet<string>
}

/** Reads the document and offers each wanted operation as a tool; returns `known` if the text is unchanged. */
export async function discover(request: DiscoverRequest, known: Discovered | undefined): Promise<Discovered> {
  const { options, services, signal } = request
  const reader: ResourceReader = { services, headers: options.headers, signal }
  const { url, file = '' } = options
  const root = await readRoot(url, resolve(services.folder, file), reader)
  const digest = `${root.url} ${await digestOf(root.bytes)}`
  if (digest === known?.digest) return known
  const tools: OfferedTool[] = []
  const reading = await read(
    { ...request, ...root },
    {
      read: async (referred) => (await readReferred(referred, root.url, reader)).bytes.toString('utf8'),
      offer: async (batch) => {
        tools.push(...batch)
        await setImmediate()
        signal.throwIfAborted()
      },
    },
  )
  const identity = { document: url === undefined ? file : addressWithoutValues(url) }
  return {
    digest: reading.isSelfContained ? digest : undefined,
    discovery: { identity, tools, warnings: reading.warnings, leftOut: reading.unwanted },
    unwanted: new Set(reading.unwanted),
  }
}

function read(
  { key, url, bytes, options, signal }: DiscoverRequest & { readonly url: string; readonly bytes: Buffer },
  callbacks: ReadingCallbacks,
): Promise<DocumentReading> {
  // Secrets stay in this thread, because reading a document does not need them.
  const request = { key, url, options: { ...options, headers: {} } }
  const isJson = beginsAsJson(bytes.subarray(0, 100).toString('utf8'))
  return bytes.length <= MAX_LENGTH_HERE[isJson ? 'json' : 'yaml']
    ? readDocument({ ...request, takeText: () => bytes.toString('utf8') }, callbacks)
    : readInWorker({ ...request, bytes }, callbacks, signal)
}

const DIGEST_CHUNK_BYTES = 1_048_576

/** Hashes in chunks and yields between them, because a document may be as large as 64 MiB. */
async function digestOf(bytes: Buffer): Promise<string> {
  const digest = createHash('sha256')
  for (let from = 0; from < bytes.length; from += DIGEST_CHUNK_BYTES) {
    digest.update(bytes.subarray(from, from + DIGEST_CHUNK_BYTES))
    await setImmediate()
  }
  return digest.digest('base64url')
}

const IS_SOURCE = import.meta.url.endsWith('.ts')
const WORKER_FILE = IS_SOURCE ? './reading-worker.ts' : './reading-worker.js'
const WORKER_MEGABYTES = 1_024
/** With a larger young generation, a large document would take more memory before garbage is collected. */
const WORKER_YOUNG_MEGABYTES = 6

export interface WorkerData extends Omit<ReadingRequest, 'takeText'> {
  readonly bytes: Uint8Array
}

export type FromWorker =
  | { readonly type: 'read'; readonly id: number; readonly url: string }
  /** Answered when the tools have been taken over, so that not all tools arrive in one turn of the event loop. */
  | { readonly type: 'tools'; readonly id: number; readonly tools: readonly OfferedTool[] }
  | { readonly type: 'done'; readonly reading: DocumentReading }
  | { readonly type: 'failed'; readonly message: string; readonly developerMessage: string | undefined }

export interface ToWorker {
  readonly id: number
  readonly text?: string
  readonly unreadable?: string
}

/** Reads a document in another thread, so that calls continue; the signal ends the thread. */
async function readInWorker(
  data: WorkerData,
  callbacks: ReadingCallbacks,
  signal: AbortSignal,
): Promise<DocumentReading> {
  signal.throwIfAborted()
  const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
    workerData: data,
    // The bytes are transferred instead of copied if nothing else uses their memory.
    transferList: ownMemoryOf(data.bytes),
    resourceLimits: {
      maxOldGenerationSizeMb: WORKER_MEGABYTES,
      maxYoungGenerationSizeMb: WORKER_YOUNG_MEGABYTES,
    },
    // When the server runs from its TypeScript source, package imports are resolved with this condition.
    ...(IS_SOURCE && { execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'] }),
  })
  const { promise, resolve, reject } = Promise.withResolvers<DocumentReading>()
  const answer = async (message: FromWorker): Promise<void> => {
    if (message.type === 'done') resolve(message.reading)
    else if (message.type === 'failed') {
      const { developerMessage } = message
      reject(fault('upstream_failed', message.message, defined({ developerMessage })))
    } else worker.postMessage(await reply(message, callbacks))
  }
  worker.on('message', (message: FromWorker) => void answer(message).catch(reject))
  worker.once('error', (cause) =>
    reject(fault('upstream_failed', 'Reading the document takes too much memory.', { cause })),
  )
  worker.once('exit', () =>
    reject(fault('upstream_failed', 'The thread that reads the document ended without a result.')),
  )
  try {
    return await untilAborted(promise, signal)
  } finally {
    await worker.terminate()
  }
}

function ownMemoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : []
}

async function reply(
  message: Extract<FromWorker, { id: number }>,
  callbacks: ReadingCallbacks,
): Promise<ToWorker> {
  const { id } = message
  if (message.type === 'tools') {
    await callbacks.offer(message.tools)
    return { id }
  }
  try {
    return { id, text: await callbacks.read(message.url) }
  } catch (error) {
    if (error instanceof Unreadable) return { id, unreadable: error.message }
    throw error
  }
}
