import cluster, { type Worker } from 'node:cluster'
import { Secret } from '#kernel/base/secret'
import type { ShownMetrics } from '#server/telemetry/metrics-routes'
import { EXIT } from './command.ts'
import type { StopRequester, WorkerProcess, WorkerReady, WorkerSide, WorkerStart } from './io.ts'

/**
 * Worker processes of `serve --workers`: the parent's side (`createWorkers`) and the child's side (`joinWorkers`),
 * which exchange messages over Node's cluster channel. `main.ts` connects both with the CLI. Invariant: all workers
 * share one port, and the metrics that any of them serves include those of all.
 */

interface BeginMessage extends Omit<WorkerStart, 'startToken'> {
  readonly kind: 'begin'
  readonly startToken: string
}

/** Messages from the parent to a worker. */
type ToWorker =
  | BeginMessage
  | { readonly kind: 'stop'; readonly by: StopRequester }
  | { readonly kind: 'measure'; readonly id: number }
  | { readonly kind: 'gathered'; readonly id: number; readonly texts: readonly WorkerText[] }

type FromWorker =
  | { readonly kind: 'ready'; readonly ready: WorkerReady }
  | { readonly kind: 'gather'; readonly id: number }
  | { readonly kind: 'measured'; readonly id: number; readonly text: string }

/** Metrics of one worker. */
type WorkerText = readonly [index: number, text: string]

/** A worker that does not answer in time is left out of the metrics. */
const METRICS_TIMEOUT_MS = 2_000

/** Starts workers; they share one port, and each can ask for the metrics of all. */
export function createWorkers(): (start: WorkerStart) => WorkerProcess {
  const living = new Map<number, Worker>()
  let lastRequestId = 0
  const measured = new Map<number, (from: number, text: string) => void>()

  /** Collects the metrics of every worker. */
  const gather = async (): Promise<readonly WorkerText[]> => {
    lastRequestId += 1
    const id = lastRequestId
    const texts = new Map<number, string>()
    const expected = [...living.keys()]
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, METRICS_TIMEOUT_MS)
    measured.set(id, (from, text) => {
      texts.set(from, text)
      if (expected.every((index) => texts.has(index))) resolve()
    })
    for (const worker of living.values()) sendTo(worker, { kind: 'measure', id })
    await promise
    clearTimeout(timer)
    measured.delete(id)
    return [...texts].toSorted(([one], [other]) => one - other)
  }

  return ({ index, startToken, port }) => {
    const worker = cluster.fork()
    living.set(index, worker)
    const ready = Promise.withResolvers<WorkerReady | undefined>()
    const ended = Promise.withResolvers<number>()
    worker.on('online', () => sendTo(worker, { kind: 'begin', index, port, startToken: startToken.reveal() }))
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') ready.resolve(message.ready)
      else if (message.kind === 'measured') measured.get(message.id)?.(index, message.text)
      else {
        const { id } = message
        void gather().then((texts) => sendTo(worker, { kind: 'gathered', id, texts }))
      }
    })
    worker.on('exit', (code) => {
      if (living.get(index) === worker) living.delete(index)
      ready.resolve(undefined)
      ended.resolve(code ?? EXIT.server)
    })
    worker.on('error', () => undefined)
    return {
      ready: ready.promise,
      ended: ended.promise,
      stop: (by = 'person') => sendTo(worker, { kind: 'stop', by }),
      kill: () => worker.process.kill('SIGKILL'),
      reload: () => worker.process.kill('SIGHUP'),
    }
  }
}

/** Sends a message; a worker that is ending receives none. */
function sendTo(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => undefined)
}

/** The worker's side; `undefined` in a process that is not a worker. */
export async function joinWorkers(): Promise<WorkerSide | undefined> {
  if (!cluster.isWorker) return undefined
  const begin = Promise.withResolvers<BeginMessage>()
  const stopped = Promise.withResolvers<StopRequester>()
  const gathered = new Map<number, (texts: readonly WorkerText[]) => void>()
  let own: ShownMetrics | undefined
  let lastRequestId = 0
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'begin') begin.resolve(message)
    else if (message.kind === 'stop') stopped.resolve(message.by)
    else if (message.kind === 'gathered') gathered.get(message.id)?.(message.texts)
    else void measure(own, message.id)
  })
  process.once('disconnect', () => stopped.resolve('person'))
  const { index, startToken, port } = await begin.promise
  return {
    index,
    port,
    sharing: port === undefined ? 'first' : 'joining',
    startToken: new Secret(startToken),
    stopped: stopped.promise,
    reportReady: (ready) => report({ kind: 'ready', ready }),
    gatherMetrics(metrics) {
      own = metrics
      return {
        async render() {
          lastRequestId += 1
          const id = lastRequestId
          const { contentType } = await metrics.render()
          const { promise, resolve } = Promise.withResolvers<readonly WorkerText[]>()
          gathered.set(id, resolve)
          report({ kind: 'gather', id })
          const texts = await promise
          gathered.delete(id)
          return { contentType, text: joinMetrics(texts) }
        },
      }
    },
  }
}

async function measure(own: ShownMetrics | undefined, id: number): Promise<void> {
  const rendered = await own?.render()
  report({ kind: 'measured', id, text: rendered?.text ?? '' })
}

function report(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}

/**
 * Joins the metrics of all workers: each sample is labelled with its worker, each family appears once. Values are not
 * added up, because not all of them can be.
 */
export function joinMetrics(texts: readonly WorkerText[]): string {
  const families = new Map<string, { readonly head: string[]; readonly samples: string[] }>()
  for (const [index, text] of texts) {
    let family = ''
    let isFirst = false
    for (const line of text.split('\n')) {
      const [, name] = /^# (?:HELP|TYPE) (\S+)/.exec(line) ?? []
      if (name !== undefined && name !== family) {
        family = name
        isFirst = !families.has(name)
      }
      const found = families.get(family) ?? { head: [], samples: [] }
      families.set(family, found)
      if (name !== undefined && isFirst) found.head.push(line)
      else if (name === undefined && line !== '') found.samples.push(labelled(line, index))
    }
  }
  return [...families.values()].flatMap(({ head, samples }) => [...head, ...samples, '']).join('\n')
}

function labelled(sample: string, worker: number): string {
  const label = `worker="${worker}"`
  return /^[^{\s]+\{/.test(sample)
    ? sample.replace('{', `{${label},`)
    : sample.replace(/^(\S+)/, `$1{${label}}`)
}
