import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isRefusal, ToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { Tool, ToolContext, ToolPolicy } from '#kernel/tool/tool'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, faultyStore, openTestGateway, type StoreMethod } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { sized } from '../../../test/size.ts'
import type { CallReply, Outcome } from './call.ts'

/** Increase for a longer search. */
const RUNS = sized(100, 1_000)
const MAX_LENGTH = 50
const LIMIT_MS = sized(60_000, 3_600_000)

const TIMEOUT_MS = 1_000
const BOB: Principal = { ...ALICE, id: 'key:bob' }
const PRINCIPALS = { alice: ALICE, bob: BOB }
const WRITES: readonly StoreMethod[] = ['claim', 'reclaim', 'finish', 'insertFinished', 'probe']

type End = 'value' | 'fail' | 'retry' | 'throw'
type Who = keyof typeof PRINCIPALS

/** An action on a gateway. Only `turn` and `wait` let calls proceed. */
type Step =
  | {
      readonly do: 'call'
      readonly who: Who
      readonly tool: string
      readonly key: string | undefined
      readonly input: number
    }
  | { readonly do: 'end a run'; readonly which: number; readonly how: End }
  | { readonly do: 'cancel'; readonly who: Who; readonly key: string }
  | { readonly do: 'turn' }
  | { readonly do: 'wait'; readonly ms: number }
  /** `after`: the commit happens, and then the store reports an error. */
  | {
      readonly do: 'break the store'
      readonly methods: readonly StoreMethod[]
      readonly when: 'before' | 'after'
    }
  | { readonly do: 'repair the store' }
  | { readonly do: 'drain'; readonly graceMs: number }

const who = fc.constantFrom<Who>('alice', 'alice', 'alice', 'bob')
const key = fc.constantFrom('k0', 'k1')
const call = fc.record({
  do: fc.constant('call' as const),
  who,
  tool: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom('Model.Write', 'Model.Exec') },
    { weight: 3, arbitrary: fc.constantFrom('Model.Idempotent', 'Model.Read', 'Model.Pure', 'Model.Quick') },
  ),
  key: fc.option(key, { nil: undefined, freq: 6 }),
  input: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
})
const quietSteps = [
  { weight: 10, arbitrary: call },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('end a run' as const),
      which: fc.nat(5),
      how: fc.constantFrom<End>('value', 'fail', 'retry', 'retry', 'throw'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), who, key }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 100, TIMEOUT_MS) }),
  },
]
const drain = {
  weight: 1,
  arbitrary: fc.record({ do: fc.constant('drain' as const), graceMs: fc.constantFrom(0, 500) }),
}
const faults = [
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('break the store' as const),
      methods: fc.subarray([...WRITES], { minLength: 1 }),
      when: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('repair the store' as const) }) },
]

/** One run of a tool, as the tool sees it. */
interface Run {
  readonly address: string
  readonly request: string
  readonly gate: PromiseWithResolvers<End>
  ended: End | undefined
}

/** One request and its reply. */
interface Asked {
  readonly address: string
  readonly request: string
  /** Final outcomes of its call that had already been returned when the run began. */
  readonly received: Received | undefined
  readonly reply: Promise<CallReply>
}

/** The final outcome of a call, and the request that got it. */
interface Received {
  readonly outcome: Outcome
  readonly request: string
}

class Model {
  readonly failing = new Set<StoreMethod>()
  readonly failingAfter = new Set<StoreMethod>()
  readonly runs: Run[] = []
  readonly asked: Asked[] = []
  readonly broken: string[] = []
  readonly gateway = openTestGateway([...this.#tools()], {
    store: faultyStore(openMemoryStore(), this.failing, this.failingAfter),
  })
  /** The first final outcome that was returned for each call. */
  readonly final = new Map<string, Received>()
  drained: Promise<void> | undefined
  isDrained = false

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'call':
        this.#ask(step)
        return
      case 'end a run': {
        const open = this.runs.filter(({ ended }) => ended === undefined)
        open[step.which % Math.max(1, open.length)]?.gate.resolve(step.how)
        return
      }
      case 'cancel':
        void this.gateway.cancelCall(PRINCIPALS[step.who], step.key)
        return
      case 'turn':
        await new Promise(setImmediate)
        return
      case 'wait':
        await vi.advanceTimersByTimeAsync(step.ms)
        return
      case 'break the store':
        for (const method of step.methods) {
          if (step.when === 'before') this.failing.add(method)
          else this.failingAfter.add(method)
        }
        return
      case 'repair the store':
        this.#mend()
        return
      case 'drain':
        this.#drain(step.graceMs)
    }
  }

  /** Ends everything: the store works, every run ends, every timer fires. */
  async finish(): Promise<readonly CallReply[]> {
    this.#mend()
    const all = Promise.all(this.asked.map(({ reply }) => reply))
    let hasEnded = false
    all.then(() => {
      hasEnded = true
    })
    for (let round = 0; round < 50 && !hasEnded; round += 1) {
      for (const run of this.runs) run.gate.resolve('value')
      await vi.advanceTimersByTimeAsync(500)
      await new Promise(setImmediate)
    }
    expect(hasEnded, 'every call settles').toBe(true)
    for (const run of this.runs) run.gate.resolve('value')
    await new Promise(setImmediate)
    return await all
  }

  #mend(): void {
    this.failing.clear()
    this.failingAfter.clear()
  }

  #ask({ who: caller, tool, key: callKey, input }: Extract<Step, { do: 'call' }>): void {
    const request = `${tool} ${input}`
    const address = callKey === undefined ? `${caller} fresh ${this.asked.length}` : `${caller} ${callKey}`
    const reply = this.gateway.call(
      PRINCIPALS[caller],
      callRequest(tool, { input: { n: input }, key: callKey ?? `fresh ${this.asked.length}` }),
    )
    this.asked.push({ address, request, received: this.final.get(address), reply })
    reply.then(({ outcome }) => this.#hear(address, { outcome, request }))
  }

  #hear(address: string, received: Received): void {
    if (isFinal(received.outcome) && !this.final.has(address)) this.final.set(address, received)
  }

  #drain(graceMs: number): void {
    this.drained ??= this.gateway.drain(graceMs).then(() => {
      this.isDrained = true
    })
  }

  #tools(): readonly Tool[] {
    const gated = (tool: string, policy: Partial<ToolPolicy>) =>
      sampleTool(`${tool}@1.0.0`, (input, context) => this.#begin(tool, input, context).answer, {
        policy: { timeoutMs: TIMEOUT_MS, ...policy },
      })
    return [
      gated('Model.Write', {}),
      gated('Model.Idempotent', { replay: 'idempotent' }),
      gated('Model.Exec', { safetyTier: 'exec' }),
      gated('Model.Read', { safetyTier: 'read' }),
      gated('Model.Pure', { safetyTier: 'pure', replay: 'deterministic' }),
      sampleTool('Model.Quick@1.0.0', (input, context) => {
        return this.#end(this.#begin('Model.Quick', input, context).run, 'value')
      }),
    ]
  }

  #begin(tool: string, input: unknown, { callId, principal }: ToolContext) {
    const run: Run = {
      address: `${principal.id.replace('key:', '')} ${callId}`,
      request: `${tool} ${JSON.stringify(input)}`,
      gate: Promise.withResolvers(),
      ended: undefined,
    }
    this.#check(run)
    this.runs.push(run)
    return { run, answer: run.gate.promise.then((end) => this.#end(run, end)) }
  }

  /** Checks rules 7 and 9 when a run starts. */
  #check(run: Run): void {
    const earlier = this.runs.filter(({ address }) => address === run.address)
    if (this.isDrained) this.broken.push(`${run.address} began after the gateway was drained`)
    // Rule 9: a released call may be tried again with other input for the same tool.
    if (earlier.some(({ request }) => request.split(' ')[0] !== run.request.split(' ')[0])) {
      this.broken.push(`${run.address} ran two tools`)
    }
    if (earlier.some(({ ended }) => ended !== 'retry')) {
      this.broken.push(`${run.address} began again although an earlier run was not released`)
    }
    if (earlier.length >= 3) this.broken.push(`${run.address} began more than three times`)
  }

  #end(run: Run, end: End): unknown {
    run.ended = end
    if (end === 'value') return this.runs.indexOf(run)
    if (end === 'throw') throw new Error('unexpected')
    throw new ToolError(end, { canRetry: end === 'retry' })
  }
}

/** Refusals, released failures and `outcome_unknown` are not final. */
function isFinal(outcome: Outcome): boolean {
  if (outcome.ok) return true
  const { code, canRetry } = outcome.error
  return !isRefusal(code) && !canRetry && code !== 'outcome_unknown'
}

async function runSteps(steps: readonly Step[]): Promise<Model> {
  const model = new Model()
  for (const step of steps) await model.take(step)
  const replies = await model.finish()
  expect(model.broken).toEqual([])
  for (const [index, { address, request, received }] of model.asked.entries()) {
    const { outcome, replayed } = replies[index] ?? expect.fail('no reply')
    const final = model.final.get(address)?.outcome
    if (isFinal(outcome)) expect(outcome, `${address}: a final outcome never changes`).toEqual(final)
    if (received === undefined) continue
    // Rule 1: an equal request is always answered, and a different one is always refused.
    if (request === received.request)
      expect({ outcome, replayed }).toEqual({ outcome: received.outcome, replayed: true })
    else expect(!outcome.ok && isRefusal(outcome.error.code)).toBe(true)
  }
  return model
}

/** The final outcomes in the store are those that callers got. */
async function checkRecords(model: Model): Promise<void> {
  for (const [address, { outcome }] of model.final) {
    const [caller = '', callId = ''] = [
      address.slice(0, address.indexOf(' ')),
      address.slice(address.indexOf(' ') + 1),
    ]
    const view = await model.gateway.readCall(caller === 'bob' ? BOB : ALICE, callId)
    expect(view, address).toMatchObject({ state: outcome.ok ? 'succeeded' : 'failed', outcome })
  }
  expect([model.gateway.running.size, model.gateway.running.slots]).toEqual([0, 0])
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('random simultaneous actions', () => {
  it('rules 1, 7, 9: one key, one request, one run at a time, one final outcome', {
    timeout: LIMIT_MS,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(...quietSteps), { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }),
        async (steps) => {
          const model = await runSteps(steps)
          await checkRecords(model)
          await model.gateway.drain(0)
        },
      ),
      { numRuns: RUNS },
    )
  })

  it('rule 11: the same holds while the store fails and recovers', { timeout: LIMIT_MS }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(...quietSteps, ...faults), { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }),
        async (steps) => {
          const model = await runSteps(steps)
          await vi.advanceTimersByTimeAsync(20_000)
          await new Promise(setImmediate)
          await checkRecords(model)
          expect(model.gateway.isReady()).toBe(true)
          await model.gateway.drain(0)
        },
      ),
      { numRuns: RUNS },
    )
  })

  it('rule 10: the same holds while the gateway drains, and a drained gateway stays drained', {
    timeout: LIMIT_MS,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(...quietSteps, drain), { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }),
        async (steps) => {
          const model = await runSteps([...steps, { do: 'drain', graceMs: 0 }])
          await vi.advanceTimersByTimeAsync(20_000)
          await model.drained
          await checkRecords(model)
          const late = await model.gateway.call(ALICE, callRequest('Model.Quick', { key: 'after' }))
          expect(late.outcome).toMatchObject({ ok: false, error: { code: 'not_ready' } })
        },
      ),
      { numRuns: RUNS },
    )
  })
})
