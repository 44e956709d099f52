import { describe, expect, it } from 'vitest'
import type { ServerProcess } from '#cli/io'
import { keepRestarting } from './watch.ts'

/** A terminal, a file watcher and processes that do what the test says. */
class Stage {
  readonly notes: string[] = []
  readonly processes: FakeProcess[] = []
  check: (() => Promise<boolean>) | undefined
  change: (file: string) => void = () => undefined
  stop: () => void = () => undefined
  #waiting: (() => void)[] = []

  run(): Promise<number> {
    return keepRestarting({
      start: () => this.#start(),
      ...(this.check === undefined ? {} : { check: this.check }),
      watch: (onChange) => {
        this.change = onChange
        return () => undefined
      },
      onStop: (listener) => {
        this.stop = listener
        return () => undefined
      },
      note: (line) => {
        this.notes.push(line)
        this.#wake()
      },
    })
  }

  /** The nth process, once it is started. */
  async process(index: number): Promise<FakeProcess> {
    for (;;) {
      const found = this.processes[index]
      if (found !== undefined) return found
      await this.#next()
    }
  }

  async note(part: string): Promise<void> {
    while (!this.notes.some((line) => line.includes(part))) await this.#next()
  }

  #start(): ServerProcess {
    const started = new FakeProcess()
    this.processes.push(started)
    this.#wake()
    return started
  }

  #next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

class FakeProcess implements ServerProcess {
  readonly #end = Promise.withResolvers<number>()
  readonly ended = this.#end.promise
  stops = 0
  kills = 0
  obedient = true

  stop(): void {
    this.stops += 1
    if (this.obedient) this.exit(0)
  }

  kill(): void {
    this.kills += 1
    this.exit(3)
  }

  exit(code: number): void {
    this.#end.resolve(code)
  }
}

describe('keepRestarting', () => {
  it('ends the process and starts another on a change', async () => {
    const stage = new Stage()
    const result = stage.run()
    const first = await stage.process(0)
    stage.change('tools/a.ts')
    await stage.process(1)
    expect(first.stops).toBe(1)
    expect(stage.notes).toEqual(['tools/a.ts changed: restarting.'])
    stage.stop()
    expect(await result).toBe(0)
  })

  it('waits for a change when the process ends by itself', async () => {
    const stage = new Stage()
    const result = stage.run()
    ;(await stage.process(0)).exit(2)
    await stage.note('ended with exit code 2. Waiting for a change')
    expect(stage.processes).toHaveLength(1)
    stage.change('collet.config.ts')
    await stage.process(1)
    stage.stop()
    expect(await result).toBe(0)
  })

  it('stops while no process runs', async () => {
    const stage = new Stage()
    const result = stage.run()
    ;(await stage.process(0)).exit(2)
    await stage.note('ended with exit code 2')
    stage.stop()
    expect(await result).toBe(0)
  })

  it('kills at the second request to stop', async () => {
    const stage = new Stage()
    const result = stage.run()
    const first = await stage.process(0)
    first.obedient = false
    stage.stop()
    stage.stop()
    expect(await result).toBe(0)
    expect(first.kills).toBe(1)
  })

  it('keeps the running process while the files cannot be served, and checks again after the next change', async () => {
    const stage = new Stage()
    const sound = [false, true]
    stage.check = async () => sound.shift() ?? false
    const result = stage.run()
    const first = await stage.process(0)
    stage.change('a.ts')
    await stage.note('a.ts changed and cannot be served yet')
    expect(first.stops).toBe(0)
    stage.change('b.ts')
    await stage.process(1)
    expect(first.stops).toBe(1)
    stage.stop()
    expect(await result).toBe(0)
  })

  it('starts once for several changes', async () => {
    const stage = new Stage()
    const result = stage.run()
    await stage.process(0)
    stage.change('a.ts')
    stage.change('b.ts')
    await stage.process(1)
    stage.stop()
    expect(await result).toBe(0)
    expect(stage.processes).toHaveLength(2)
  })
})
