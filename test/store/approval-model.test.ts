import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Approver } from '#kernel/approval/approvals'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { ToolError } from '#kernel/base/errors'
import { recordOf } from '#kernel/call/look-up'
import type { ToolContext } from '#kernel/tool/tool'
import type { RunningGateway } from '#stages/open-gateway'
import type { Store } from '#store/collet-store'
import { openMemoryStore, openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, FakeClock, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'
import { sized } from '../size.ts'

const LIMIT_MS = sized(120_000, 3_600_000)
const MAX_LENGTH = 40
const EXPIRES_MS = 60_000
const APPROVERS: readonly Approver[] = ['bob', 'eve', 'joe'].map((name) => ({
  ...{ id: `key:${name}`, tenant: 'default', scopes: ['approvals:respond'] },
}))

type Step =
  | { readonly do: 'call'; readonly key: string | undefined; readonly input: number }
  | { readonly do: 'decide'; readonly which: number; readonly who: number; readonly yes: boolean }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'end a run'; readonly how: 'value' | 'retry' }
  | { readonly do: 'cancel'; readonly key: string }
  | { readonly do: 'turn' }
  | { readonly do: 'crash' }

const key = fc.constantFrom('k0', 'k1')
const steps = [
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('call' as const),
      key: fc.option(key, { nil: undefined, freq: 4 }),
      input: fc.constantFrom(0, 0, 0, 1),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('decide' as const),
      which: fc.nat(3),
      who: fc.nat(2),
      yes: fc.constantFrom(true, true, true, true, false),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(1, EXPIRES_MS / 2, EXPIRES_MS, 400_000),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('end a run' as const),
      how: fc.constantFrom('value' as const, 'retry' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), key }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
]
const crash = { weight: 2, arbitrary: fc.record({ do: fc.constant('crash' as const) }) }

/** A gateway, the decisions of its approvers, and every execution with its grant. */
class Simulation {
  readonly clock = new FakeClock()
  readonly broken: string[] = []
  readonly usedGrants = new Set<string>()
  /** Approvers that approved, by approval id. */
  readonly yes = new Map<string, Set<string>>()
  readonly closed = new Set<string>()
  readonly gates: PromiseWithResolvers<'value' | 'retry'>[] = []
  readonly calls: Promise<unknown>[] = []
  readonly quorum: number
  readonly #open: () => Store
  store: Store
  gateway: RunningGateway

  constructor(open: () => Store, quorum: number) {
    this.#open = open
    this.quorum = quorum
    this.store = open()
    this.gateway = this.#gateway()
  }

  #gateway(): RunningGateway {
    const { store } = this
    const tool = sampleTool('Model.Approved@1.0.0', (_input, context) => this.#run(store, context), {
      policy: { approval: 'always' },
    })
    const approvalRules = { ...DEFAULT_APPROVAL_RULES, expiresAfterMs: EXPIRES_MS, quorum: this.quorum }
    return openTestGateway([tool], { store, clock: this.clock, approvalRules })
  }

  /** Rules 20 and 21, checked at the moment of a possible violation: the tool itself looks up its grant. */
  async #run(store: Store, { callId }: ToolContext): Promise<string> {
    const gate = Promise.withResolvers<'value' | 'retry'>()
    this.gates.push(gate)
    const record = recordOf(store, ALICE, callId)
    const grant = await store.approvals.findFor({ tenant: 'default', record })
    const call = await store.find({ tenant: 'default', record })
    const name = `${callId} attempt ${call?.attempt}`
    if (grant?.state !== 'used' || grant.attempt !== call?.attempt) this.broken.push(`${name} has no grant`)
    else if (this.usedGrants.has(grant.id)) this.broken.push(`${name} used a grant again`)
    else if ((this.yes.get(grant.id)?.size ?? 0) < this.quorum) this.broken.push(`${name}: too few said yes`)
    else if (this.closed.has(grant.id)) this.broken.push(`${name} ran after a no`)
    if (grant !== undefined) this.usedGrants.add(grant.id)
    if ((await gate.promise) === 'retry') throw new ToolError('Not now.', { canRetry: true })
    return 'done'
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'call': {
        const input = { n: step.input }
        const call = this.gateway.call(ALICE, callRequest('Model.Approved', { key: step.key, input }))
        this.calls.push(call)
        await Promise.race([call, turns(4)])
        return
      }
      case 'decide': {
        const open = await this.store.approvals.list({ limit: 10, state: 'pending' })
        const approval = open[step.which % Math.max(1, open.length)]
        const approver = APPROVERS[step.who] ?? expect.fail('nobody')
        if (approval === undefined) return
        const isExpired = approval.expiresAtMs <= this.clock.nowMs()
        const action = step.yes ? 'grant' : 'reject'
        const { kind } = await this.gateway.approvals.decide(approver, approval, {
          action,
          reason: undefined,
        })
        const counts = kind === 'decided' || kind === 'counted'
        if (counts && isExpired) this.broken.push('a decision counted after its time')
        if (!counts) return
        if (!step.yes) this.closed.add(approval.id)
        else this.yes.set(approval.id, (this.yes.get(approval.id) ?? new Set()).add(approver.id))
        return
      }
      case 'wait':
        this.clock.advance(step.ms)
        return
      case 'end a run':
        this.gates.shift()?.resolve(step.how)
        await turns(3)
        return
      case 'cancel':
        await Promise.race([this.gateway.cancelCall(ALICE, step.key), turns(4)])
        return
      case 'turn':
        await turns(1)
        return
      case 'crash':
        await this.#crash()
    }
  }

  /** Closing releases the lock and ends no call: running calls are cut off, waiting calls keep waiting. */
  async #crash(): Promise<void> {
    const { calls: parked } = await this.store.list({ limit: 100, states: ['parked'] })
    await this.store.close()
    this.store = this.#open()
    this.gateway = this.#gateway()
    await this.store.recover(this.clock.nowMs())
    const { calls: still } = await this.store.list({ limit: 100, states: ['parked'] })
    if (still.length !== parked.length) this.broken.push('a parked call was lost in a crash')
  }

  /** An approval is closed exactly when its call is not parked. */
  async finish(): Promise<void> {
    for (const gate of this.gates) gate.resolve('value')
    await turns(5)
    for (const approval of await this.store.approvals.list({ limit: 1_000 })) {
      const call = await this.store.find(approval)
      const isOpen = approval.state === 'pending' || approval.state === 'granted'
      const isParked = call?.state === 'parked' && call.attempt === approval.attempt
      if (isOpen !== isParked) this.broken.push(`${approval.state} question of a ${call?.state} call`)
      if (approval.state === 'used' && !this.usedGrants.has(approval.id)) {
        // Only a crash between the grant's commit and the run's first line leaves one without a visible use.
        if (call?.state === 'succeeded')
          this.broken.push('a call succeeded on a grant whose use was not observed')
      }
    }
    expect(this.broken).toEqual([])
    await this.gateway.drain(0).catch(() => undefined)
    await this.store.close()
  }
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate)
}

async function runSteps(simulation: Simulation, taken: readonly Step[]): Promise<void> {
  for (const step of taken) await simulation.take(step)
  await simulation.finish()
}

describe('concurrent callers, approvers and timeouts', { timeout: LIMIT_MS }, () => {
  const quorum = fc.constantFrom(1, 1, 2)

  it('rules 20 and 21: every execution in memory has its own grant', async () => {
    const some = fc.array(fc.oneof(...steps), { minLength: 5, maxLength: MAX_LENGTH, size: 'max' })
    await fc.assert(
      fc.asyncProperty(quorum, some, (needed, taken) =>
        runSteps(new Simulation(() => openMemoryStore(), needed), taken),
      ),
      { numRuns: sized(150, 1_500) },
    )
  })

  it('rules 8, 20 and 21: every execution on SQLite has its own grant, across crashes', async () => {
    const some = fc.array(fc.oneof(...steps, crash), { minLength: 5, maxLength: MAX_LENGTH, size: 'max' })
    await fc.assert(
      fc.asyncProperty(quorum, some, async (needed, taken) => {
        const folder = mkdtempSync(join(tmpdir(), 'collet-approval-model-'))
        const masterKey = Buffer.alloc(32, 3)
        try {
          await runSteps(
            new Simulation(() => openSqliteStore({ path: join(folder, 'collet.db'), masterKey }), needed),
            taken,
          )
        } finally {
          rmSync(folder, { recursive: true, force: true })
        }
      }),
      { numRuns: sized(40, 400) },
    )
  })
})
