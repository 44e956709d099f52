import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import { StoreError } from '#kernel/base/errors'
import { parseToolName } from '#kernel/base/ids'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { type CallReply, type CallRequest, NO_SECRETS, type Outcome } from '#kernel/call/call'
import { Registry } from '#kernel/tool/catalog'
import { type DefinedTool, isDefinedTool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import { openGateway, type RunningGateway, type RunningGatewayOptions } from '#stages/open-gateway'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'

/**
 * Parts for tests of the gateway: a gateway in this process, a store that fails on request, a clock that tests move,
 * and short forms of requests and replies. Tests of this repository use it; authors use `testTool`.
 */

export type StoreMethod = 'claim' | 'reclaim' | 'finish' | 'insertFinished' | 'recordLate' | 'probe' | 'find'

/** A real store with methods that fail: those in `failing` without doing anything, those in `failingAfter` after their work. */
export function faultyStore(
  store: Store,
  failing: ReadonlySet<StoreMethod>,
  failingAfter: ReadonlySet<StoreMethod> = new Set(),
): Store {
  const [before, after]: [ReadonlySet<unknown>, ReadonlySet<unknown>] = [failing, failingAfter]
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        const fail = () => Promise.reject(new StoreError('full', 'the disk is full'))
        if (before.has(name)) return fail()
        const result: unknown = Reflect.apply(value, target, parameters)
        return after.has(name) ? Promise.resolve(result).then(fail) : result
      }
    },
  })
}

/** A clock that stands still until a test moves it. */
export class FakeClock implements Clock {
  #nowMs: number

  constructor(nowMs = 1_700_000_000_000) {
    this.#nowMs = nowMs
  }

  nowMs(): number {
    return this.#nowMs
  }

  monotonicMs(): number {
    return this.#nowMs
  }

  advance(ms: number): void {
    this.#nowMs += ms
  }
}

/** A caller without scopes. */
export const ALICE: Principal = { id: 'key:alice', tenant: 'default', scopes: [] }

/**
 * A gateway in this process, on the memory store unless another is given. Takes tools made with `tool()`, and throws
 * on every problem of a definition, as the server does.
 */
export function openTestGateway(
  tools: readonly (Tool | DefinedTool)[],
  changes: Partial<RunningGatewayOptions> = {},
): RunningGateway {
  const ready = tools.flatMap((tool) => (isDefinedTool(tool) ? [] : [tool]))
  return openGateway({
    registry: new Registry([...ready, ...requireTools(tools.filter(isDefinedTool))]),
    store: openMemoryStore(),
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
    fetch,
    hooks: {},
    approvalRules: DEFAULT_APPROVAL_RULES,
    publicUrl: () => 'http://127.0.0.1:4100',
    maxResultBytes: 1_000_000,
    ...changes,
  })
}

/** A call with an empty input and no key, with these changes. */
export function callRequest(tool: string, changes: Partial<CallRequest> = {}): CallRequest {
  const ref = parseToolName(tool)
  if (ref === undefined) throw new Error(`'${tool}' is not a tool reference`)
  return {
    tool: ref,
    input: {},
    key: undefined,
    traceId: undefined,
    userId: undefined,
    tokens: NO_SECRETS,
    secrets: NO_SECRETS,
    ...changes,
  }
}

/** The short form of an outcome that tests compare: `ok <value>` or the error's code. */
export function gist({ outcome }: { readonly outcome: Outcome }): string {
  return outcome.ok ? `ok ${outcome.valueJson}` : outcome.error.code
}

/** The error of a call that is expected to fail. */
export function errorOf(reply: CallReply) {
  if (reply.outcome.ok) throw new Error(`the call succeeded with ${reply.outcome.valueJson}`)
  return reply.outcome.error
}
