import { parentPort, workerData } from 'node:worker_threads'
import { isToolError } from '#kernel/base/errors'
import type { FromWorker, ToWorker, WorkerData } from './discover.ts'
import { Unreadable } from './load.ts'
import { readDocument } from './reading.ts'

/*
 * The worker thread that reads a large OpenAPI document.
 * `discover.ts` starts it and answers its requests.
 * Invariant: the thread opens no connection; the main thread fetches everything.
 */

const { bytes, ...request }: WorkerData = workerData
const waiting = new Map<number, (answer: ToWorker) => void>()
let requests = 0

parentPort?.on('message', (answer: ToWorker) => {
  waiting.get(answer.id)?.(answer)
  waiting.delete(answer.id)
})

function takeText(): string {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  // Releases the bytes before the document is parsed.
  if (bytes.buffer instanceof ArrayBuffer) bytes.buffer.transfer(0)
  return text
}

function post(message: FromWorker): void {
  parentPort?.postMessage(message)
}

function askMainThread(message: (id: number) => FromWorker): Promise<ToWorker> {
  requests += 1
  const id = requests
  return new Promise((resolve) => {
    waiting.set(id, resolve)
    post(message(id))
  })
}

try {
  const reading = await readDocument(
    { ...request, takeText },
    {
      async read(url) {
        const { text, unreadable } = await askMainThread((id) => ({ type: 'read', id, url }))
        if (text === undefined) throw new Unreadable(unreadable ?? url)
        return text
      },
      async offer(tools) {
        await askMainThread((id) => ({ type: 'tools', id, tools }))
      },
    },
  )
  post({ type: 'done', reading })
} catch (error) {
  const why = error instanceof Error ? error.message : undefined
  const unread = { message: 'The document cannot be read.', developerMessage: why }
  const { message, developerMessage } = isToolError(error) ? error : unread
  post({ type: 'failed', message, developerMessage })
} finally {
  parentPort?.close()
}
