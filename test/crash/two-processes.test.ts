import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isRefusal, ToolError } from '#kernel/base/errors'
import type { Outcome } from '#kernel/call/call'
import type { Tool, ToolContext, ToolPolicy } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, FakeClock, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'

/**
 * Random sequences of calls and cuts in two simulated processes on one database. The crash driver kills real processes and reaches
 * only by chance the cases that this test constructs. Raise ROUNDS for a longer search.
 */
const ROUNDS = 100
const MAX_LENGTH = 40
const LIMIT_MS = 240_000

type End = 'value' | 'fail' | 'retry'
type Which = 0 | 1

const TOOLS = {
  Write: { safetyTier: 'write' },
  Exec: { safetyTier: 'exec' },
  Idempotent: { safetyTier: 'write', replay: 'idempotent' },
  Read: { safetyTier: 'read' },
  Pure: { safetyTier: 'pure', replay: 'deterministic' },
} as const satisfies Record<string, Partial<ToolPolicy>>
type ToolName = keyof typeof TOOLS

type Step =
  /** Each tool has one key, so that several steps concern the same call. */
  | { readonly do: 'call'; readonly on: Which; readonly tool: ToolName }
  | { readonly do: 'end a run'; readonly which: number; readonly how: End }
  | { readonly do: 'cut off'; readonly on: Which }
  | { readonly do: 'turn' }
  | { readonly do: 'wait'; readonly ms: number }

const on = fc.constantFrom<Which>(0, 1)
const steps = fc.array(
  fc.oneof<[fc.WeightedArbitrary<Step>, ...fc.WeightedArbitrary<Step>[]]>(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant('call' as const),
        on,
        tool: fc.constantFrom<ToolName>('Write', 'Write', 'Exec', 'Exec', 'Idempotent', 'Read', 'Pure'),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('end a run' as const),
        which: fc.nat(5),
        how: fc.constantFrom<End>('value', 'fail', 'retry'),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('cut off' as const), on }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        ms: fc.constantFrom(1, 60, 6_000, 2 * 3_600_000),
      }),
    },
  ),
  { minLength: 5, maxLength: MAX_LENGTH, size: 'max' },
)

/** One run of a tool, as the tool sees it. */
interface Run {
  readonly tool: ToolName
  readonly address: string
  readonly process: Process
  readonly gate: PromiseWithResolvers<End>
  readonly begunMs: number
  ended: End | undefined
}

interface SentRequest {
  readonly address: string
  readonly process: Process
  readonly reply: Promise<Outcome>
  /** The final outcome that a caller had already received when this request was made. */
  readonly received: Outcome | undefined
}

/** A gateway on its own connection. Once cut off, it cannot reach the database, and its lock is free. */
class Process {
  readonly store: Store
  readonly gateway: ReturnType<typeof openTestGateway>
  isCut = false

  constructor(simulation: Simulation) {
    const { clock } = simulation
    this.store = openSqliteStore({ ...simulation.location, nowMs: () => clock.nowMs() })
    this.gateway = openTestGateway(simulation.tools(this), { store: this.#reachable(), clock })
  }

  async cutOff(): Promise<void> {
    this.isCut = true
    await this.store.close()
  }

  /** The store, until this process is cut off: from then on no request or answer arrives. */
  #reachable(): Store {
    return new Proxy<Store>(this.store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        // Watching does not read immediately: a process that is cut off watches and gets no event.
        if (name === 'watch' && this.isCut) return () => ({ want: () => {}, end: () => {} })
        return (...paracountsers: unknown[]): unknown =>
          this.isCut ? new Promise(() => {}) : Reflect.apply(value, target, paracountsers)
      },
    })
  }
}

class Simulation {
  readonly clock = new FakeClock()
  readonly location: { readonly path: string; readonly masterKey: Uint8Array }
  readonly runs: Run[] = []
  readonly requests: SentRequest[] = []
  readonly broken: string[] = []
  readonly final = new Map<string, Outcome>()
  readonly processes: [Process, Process]
  cuts = 0

  constructor(path: string) {
    this.location = { path, masterKey: randomBytes(32) }
    this.processes = [new Process(this), new Process(this)]
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'call':
        this.#ask(step)
        return
      case 'end a run': {
        const open = this.runs.filter(({ ended, process }) => ended === undefined && !process.isCut)
        open[step.which % Math.max(1, open.length)]?.gate.resolve(step.how)
        return
      }
      case 'cut off': {
        this.cuts += 1
        await this.processes[step.on].cutOff()
        this.processes[step.on] = new Process(this)
        return
      }
      case 'turn':
        await turns(3)
        return
      case 'wait':
        await this.wait(step.ms)
    }
  }

  async wait(ms: number): Promise<void> {
    this.clock.advance(ms)
    await vi.advanceTimersByTimeAsync(Math.min(ms, 10_000))
    await turns(3)
  }

  /** Reconnects all processes and lets every run end. */
  async finish(): Promise<void> {
    const open = this.requests.filter(({ process }) => !process.isCut)
    let hasEnded = false
    void Promise.all(open.map(({ reply }) => reply)).then(() => {
      hasEnded = true
    })
    for (let round = 0; round < 100 && !hasEnded; round += 1) {
      for (const run of this.runs) if (!run.process.isCut) run.gate.resolve('value')
      await this.wait(1_000)
    }
    expect(hasEnded, 'every call of a living process settles').toBe(true)
    // A call that may run again waits for a request, but not forever.
    this.clock.advance(2 * 3_600_000)
    await this.processes[0].store.recover(this.clock.nowMs())
  }

  tools(process: Process): readonly Tool[] {
    return Object.entries(TOOLS).map(([name, policy]) =>
      sampleTool(`Model.${name}@1.0.0`, (_input, context) => this.#begin(name, context, process), { policy }),
    )
  }

  #ask({ on: which, tool }: Extract<Step, { do: 'call' }>): void {
    const process = this.processes[which]
    const address = `the ${tool}`
    const reply = process.gateway
      .call(ALICE, callRequest(`Model.${tool}`, { key: address }))
      .then(({ outcome }) => outcome)
    this.requests.push({ address, process, reply, received: this.final.get(address) })
    void reply.then((outcome) => this.#receive(address, process, outcome))
  }

  #receive(address: string, process: Process, outcome: Outcome): void {
    if (process.isCut || !isFinal(outcome)) return
    const final = this.final.get(address)
    if (final === undefined) this.final.set(address, outcome)
    else if (JSON.stringify(final) !== JSON.stringify(outcome)) {
      this.broken.push(`${address}: ${JSON.stringify(final)} became ${JSON.stringify(outcome)}`)
    }
  }

  async #begin(name: string, { callId }: ToolContext, process: Process): Promise<unknown> {
    const tool = toolNamed(name)
    const run: Run = {
      ...{ tool, address: callId, process, begunMs: this.clock.nowMs() },
      gate: Promise.withResolvers(),
      ended: undefined,
    }
    this.#check(run)
    this.runs.push(run)
    const end = await run.gate.promise
    run.ended = end
    if (end === 'value') return this.runs.indexOf(run)
    throw new ToolError(end, { canRetry: end === 'retry' })
  }

  /** Checks the promise at the moment when it can be broken: a run that may have taken effect is not started again. */
  #check({ tool, address, begunMs }: Run): void {
    const earlier = this.runs.filter((run) => run.address === address)
    const unreleased = earlier.filter(({ ended }) => ended !== 'retry')
    if (tool === 'Read' || tool === 'Pure') return
    if (earlier.length >= 3) this.broken.push(`${address} began more than three times`)
    const isCutIdempotent = unreleased.every(
      ({ process, begunMs: firstMs }) => process.isCut && begunMs - firstMs < 3_600_000,
    )
    if (unreleased.length === 0 || (tool === 'Idempotent' && isCutIdempotent)) return
    this.broken.push(`${address} began again although an earlier run was not released`)
  }
}

function toolNamed(name: string): ToolName {
  const found = (Object.keys(TOOLS) as ToolName[]).find((known) => known === name)
  return found ?? expect.fail(`no tool ${name}`)
}

/** Refusals, released failures and `outcome_unknown` are not final. */
function isFinal(outcome: Outcome): boolean {
  if (outcome.ok) return true
  const { code, canRetry } = outcome.error
  return !isRefusal(code) && !canRetry && code !== 'outcome_unknown'
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate)
}

/** The final state of the database equals what callers received, and no call is left running. */
async function checkRecords({ processes: [{ store }], final, runs }: Simulation): Promise<void> {
  const { calls: records } = await store.list({ limit: 100 })
  expect(records.filter(({ state }) => state === 'running')).toEqual([])
  for (const record of records.filter(({ state }) => state === 'ambiguous')) {
    const cut = runs.filter(({ address, process }) => address === record.callId && process.isCut)
    expect(cut.length, `${record.callId} is ambiguous`).toBeGreaterThan(0)
  }
  for (const [address, outcome] of final) {
    const record = records.find(({ callId }) => callId === address)
    const code = outcome.ok ? undefined : outcome.error.code
    expect(record?.state, address).toBe(
      outcome.ok ? 'succeeded' : code === 'ambiguous' ? 'ambiguous' : 'failed',
    )
    if (code !== 'ambiguous') expect(record?.outcome, address).toMatchObject({ ok: outcome.ok })
  }
  expect(await store.verify()).toMatchObject({ ok: true })
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-two-'))
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(folder, { recursive: true })
})

describe('two processes on one database, cut off at any time', () => {
  it('rules 7, 8, 9, 17: one key has one effect; a final outcome never changes; calls are ambiguous only after a cut', {
    timeout: LIMIT_MS,
  }, async () => {
    let file = 0
    const counts = { cuts: 0, runs: 0, ambiguous: 0, replayed: 0 }
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        file += 1
        const simulation = new Simulation(join(folder, `${file}.db`))
        try {
          for (const step of taken) await simulation.take(step)
          await simulation.finish()
          expect(simulation.broken).toEqual([])
          for (const { received, reply, process } of simulation.requests) {
            if (received !== undefined && !process.isCut) expect(await reply).toEqual(received)
          }
          await checkRecords(simulation)
          counts.cuts += simulation.cuts
          counts.runs += simulation.runs.length
          counts.ambiguous += (
            await simulation.processes[0].store.list({ states: ['ambiguous'], limit: 100 })
          ).calls.length
          counts.replayed += simulation.requests.filter(({ received }) => received !== undefined).length
        } finally {
          for (const process of simulation.processes) await process.cutOff()
          vi.clearAllTimers()
        }
      }),
      { numRuns: ROUNDS },
    )
    // A search in which none of these cases occurred would prove nothing.
    expect(Object.entries(counts).filter(([, count]) => count < ROUNDS / 4)).toEqual([])
  })
})
