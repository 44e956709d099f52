import { Worker } from 'node:worker_threads'
import { fault } from '#core/errors'
import type { OfferedTool } from '#core/ports/source'
import type { DocumentReading, ReadingRequest, ReadingWays } from './reading.ts'
import { Unreadable } from './unreadable.ts'

const IS_SOURCE = import.meta.url.endsWith('.ts')
const WORKER_FILE = IS_SOURCE ? './reading-worker.ts' : './reading-worker.js'
const WORKER_MEGABYTES = 1_024

/** What the thread is given: the text is unpacked over there. */
export interface WorkerData extends Omit<ReadingRequest, 'text'> {
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
export async function readElsewhere(
  data: WorkerData,
  ways: ReadingWays,
  signal: AbortSignal,
): Promise<DocumentReading> {
  signal.throwIfAborted()
  const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: WORKER_MEGABYTES },
    // From source the rooms are found by this condition, whoever started the process.
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
