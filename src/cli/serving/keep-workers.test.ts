import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { EXIT } from '#cli/command'
import type { StopRequester, WorkerProcess, WorkerReady } from '#cli/io'
import { joinMetrics } from '#cli/workers'
import { keepWorkers } from './keep-workers.ts'

const READY: WorkerReady = {
  ...{ url: 'http://127.0.0.1:4100', startTokenFile: '/data/token', warnings: [] },
  ...{ tools: 1, sources: 0, versions: 0, starting: [], isKeyed: false },
}

/** A worker that does what the test says. */
class FakeWorker implements WorkerProcess {
  readonly index: number
  readonly told: string[] = []
  readonly #ready = Promise.withResolvers<WorkerReady | undefined>()
  readonly #ended = Promise.withResolvers<number>()

  constructor(index: number) {
    this.index = index
  }

  get ready(): Promise<WorkerReady | undefined> {
    return this.#ready.promise
  }

  get ended(): Promise<number> {
    return this.#ended.promise
  }

  serve(): void {
    this.#ready.resolve(READY)
  }

  end(code: number): void {
    this.#ready.resolve(undefined)
    this.#ended.resolve(code)
  }

  stop(by?: StopRequester): void {
    this.told.push(by === 'supervisor' ? 'drain' : 'stop')
  }

  kill(): void {
    this.told.push('kill')
    this.end(137)
  }

  reload(): void {
    this.told.push('reload')
  }
}

class Stage {
  readonly workers: FakeWorker[] = []
  readonly notes: string[] = []
  readonly ready: WorkerReady[] = []
  stop: (by: StopRequester) => void = () => undefined
  reload = (): void => undefined
  readonly ended: Promise<number>

  constructor(count: number) {
    this.ended = keepWorkers({
      count,
      start: (index) => {
        const worker = new FakeWorker(index)
        this.workers.push(worker)
        return worker
      },
      onReady: (ready) => void this.ready.push(ready),
      onStop: (listener) => {
        this.stop = listener
        return () => undefined
      },
      onReload: (listener) => {
        this.reload = listener
        return () => undefined
      },
      drainMs: 0,
      note: (line) => void this.notes.push(line),
      monotonicMs: () => performance.now(),
    })
  }

  at(nth: number): FakeWorker {
    const worker = this.workers[nth]
    if (worker === undefined) throw new Error('it was not started')
    return worker
  }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const settle = () => vi.advanceTimersByTimeAsync(0)

describe('keepWorkers', () => {
  it('starts one worker, and the others once it serves; prints the address once', async () => {
    const stage = new Stage(3)
    await settle()
    expect(stage.workers).toHaveLength(1)
    stage.at(0).serve()
    await settle()
    expect(stage.workers.map(({ index }) => index)).toEqual([1, 2, 3])
    expect(stage.ready).toEqual([READY])
  })

  it('exits if the first worker cannot start', async () => {
    const stage = new Stage(3)
    stage.at(0).end(2)
    expect(await stage.ended).toBe(EXIT.server)
    expect(stage.workers).toHaveLength(1)
  })

  it('restarts a worker that died, with growing delays, and at once if it ran for long enough', async () => {
    const stage = new Stage(2)
    stage.at(0).serve()
    await settle()
    let pauseMs = 100
    for (const dies of [1, 2, 3, 4]) {
      stage.at(dies).end(1)
      await vi.advanceTimersByTimeAsync(pauseMs - 1)
      expect(stage.workers).toHaveLength(dies + 1)
      await vi.advanceTimersByTimeAsync(1)
      expect(stage.workers).toHaveLength(dies + 2)
      pauseMs *= 2
    }
    expect(stage.workers.map(({ index }) => index)).toEqual([1, 2, 2, 2, 2, 2])
    await vi.advanceTimersByTimeAsync(30_000)
    stage.at(5).end(1)
    await vi.advanceTimersByTimeAsync(100)
    expect(stage.workers).toHaveLength(7)
    expect(stage.notes.at(-1)).toBe('Worker 2 ended with exit code 1; it is started again in 0.1 s.')
  })

  it('stops all workers, restarts none, and kills them on the second request', async () => {
    const stage = new Stage(2)
    stage.at(0).serve()
    await settle()
    stage.reload()
    stage.stop('person')
    expect(stage.workers.map(({ told }) => told)).toEqual([
      ['reload', 'stop'],
      ['reload', 'stop'],
    ])
    stage.at(0).end(0)
    stage.stop('person')
    expect(stage.at(1).told).toEqual(['reload', 'stop', 'kill', 'stop'])
    expect(await stage.ended).toBe(EXIT.ok)
    expect(stage.workers).toHaveLength(2)
  })

  it('notifies workers that a supervisor stops them, so that they accept calls until their proxy has noticed', async () => {
    const stage = new Stage(2)
    stage.at(0).serve()
    await settle()
    stage.stop('supervisor')
    expect(stage.workers.map(({ told }) => told)).toEqual([['drain'], ['drain']])
    for (const worker of stage.workers) worker.end(0)
    expect(await stage.ended).toBe(EXIT.ok)
  })

  it('kills workers that do not exit by themselves', async () => {
    const stage = new Stage(2)
    stage.at(0).serve()
    await settle()
    stage.stop('person')
    await vi.advanceTimersByTimeAsync(30_000)
    expect(await stage.ended).toBe(EXIT.ok)
    expect(stage.at(1).told).toEqual(['stop', 'kill'])
  })
})

describe('joinMetrics', () => {
  it('names the worker of each sample, and each family once', () => {
    const text = (n: number) => `# HELP a_total As.
# TYPE a_total counter
a_total{tool="x {y}"} ${n}
# TYPE b gauge
b ${n}
`
    expect(
      joinMetrics([
        [1, text(4)],
        [2, text(5)],
      ]),
    ).toBe(`# HELP a_total As.
# TYPE a_total counter
a_total{worker="1",tool="x {y}"} 4
a_total{worker="2",tool="x {y}"} 5

# TYPE b gauge
b{worker="1"} 4
b{worker="2"} 5
`)
  })
})
