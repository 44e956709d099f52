import { parentPort, workerData } from 'node:worker_threads'
import { StoreError } from '#core/store-error'
import { CommitEngine } from './commit-engine.ts'
import type {
  Answer,
  CommitThreadData,
  FromThread,
  Problem,
  SentChange,
  ToThread,
} from './commit-messages.ts'

/** The body of the commit thread: changes in, answers out, both in batches. */
const given: CommitThreadData = workerData

function tell(message: FromThread): void {
  parentPort?.postMessage(message)
}

const engine = new CommitEngine({
  ...given,
  nowMs: Date.now,
  onCommit: (changes, durationMs) => tell({ kind: 'committed', changes, durationMs }),
})

let answers: Answer[] = []

/** All changes of a commit settle in one turn, so their answers leave as one message. */
function answer(given: Answer): void {
  answers.push(given)
  if (answers.length > 1) return
  setImmediate(() => {
    tell({ kind: 'answers', answers })
    answers = []
  })
}

async function make({ id, name, change }: SentChange): Promise<void> {
  try {
    answer({ id, result: await engine.submit(name, change) })
  } catch (error) {
    answer({ id, problem: problemOf(error) })
  }
}

function problemOf(error: unknown): Problem {
  if (error instanceof StoreError) return { code: error.code, message: error.message }
  return { code: 'not_written', message: error instanceof Error ? error.message : String(error) }
}

async function close(): Promise<void> {
  const problem = await engine.close().then(() => undefined, problemOf)
  tell({ kind: 'closed', problem })
  parentPort?.close()
}

parentPort?.on('message', (message: ToThread) => {
  if (message.kind === 'close') void close()
  else for (const change of message.changes) void make(change)
})
tell({ kind: 'opened' })
