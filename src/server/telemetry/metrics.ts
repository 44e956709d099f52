/**
 * Counts calls, requests and commits for `/metrics`, and wraps the gateway of a process so that each of its calls is counted,
 * timed, logged and, if it was refused, audited. `prometheus.ts` renders the counts and `metrics-routes.ts` serves them.
 * Invariant: label values come from the catalog and the routes, so that callers cannot create new ones. Counts are plain numbers,
 * because the counters of a library cost 5 µs of CPU per call, a tenth of the whole request.
 */

import type { Clock } from '#kernel/base/clock'
import { isRefusal, isToolError } from '#kernel/base/errors'
import { writeToolRef } from '#kernel/base/ids'
import { opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { CallError, CallReply, CallRequest } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import { recordOf } from '#kernel/call/look-up'
import { requestScope } from '#server/http/exchange'
import type { SourceView } from '#sources/kit/sources'
import type { LimitName } from '#stages/limits/settings'
import type { Store } from '#store/collet-store'
import { type NoteDenial, noteHiddenTool } from './denials.ts'
import type { CollectMetrics, Rendered } from './prometheus.ts'
import type { RejectionLog } from './rejections.ts'
import type { CallLine } from './terminal-lines.ts'

/** A call that ended. Its tool is an id from the catalog, or `unknown`. */
type EndedCall = Pick<CallLine, 'tool' | 'outcome' | 'durationMs' | 'isReplay'> & Pick<Principal, 'tenant'>

export interface Metrics {
  callStarted(): void
  callLeft(): void
  callEnded(call: EndedCall): void
  /** `route` is the pattern of the route, never a path. */
  requestAnswered(route: string, method: string, status: number): void
  /** Counts a call or a request that a limit refused. */
  limitRefused(name: LimitName): void
  /** Counts calls that a crash interrupted: their effect is unknown. */
  callsBecameAmbiguous(calls: number): void
  /** Counts one commit group that became durable. */
  groupCommitted(rows: number, durationMs: number): void
  /** Replaces functions whose values are read at each scrape. */
  follow(values: Partial<FollowedValues>): void
  render(): Promise<Rendered>
  /** Returns a new reader of all metrics; see `CollectMetrics`. */
  openCollector(): Promise<CollectMetrics>
}

/** Functions that are called when metrics are rendered. */
interface FollowedValues {
  /** Whether new calls are accepted. */
  isReady(): boolean
  sources(): readonly SourceView[]
  /** Expiry of the certificate; `undefined` for a server without a certificate. */
  certificateEndsAtMs(): number | undefined
}

const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5]
const COMMIT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

/** Maximum number of tenants that are counted separately. Tokens can name any tenant, so further tenants are counted together, as `other`. */
const MAX_TENANTS = 1_000

/** @param byTenant whether calls are counted for each tenant separately */
export function createMetrics(byTenant = false): Metrics {
  const calls = new Map<string, ToolTally>()
  const tenants = new Set<string>()
  const labelsOf = (tool: string, tenant: string): ToolTally['labels'] => {
    if (!byTenant) return { tool }
    if (tenants.size < MAX_TENANTS) tenants.add(tenant)
    return { tool, tenant: tenants.has(tenant) ? tenant : 'other' }
  }
  const requests = new RequestTallies()
  const refused = new Map<LimitName, number>()
  const commitRows = new Distribution(COMMIT_ROWS)
  const commitSeconds = new Distribution(COMMIT_SECONDS)
  const tallies: Tallies = {
    calls,
    refused,
    commitRows,
    commitSeconds,
    running: 0,
    ambiguousCalls: 0,
    requests: requests.all,
    isReady: () => false,
    sources: () => [],
    certificateEndsAtMs: () => undefined,
  }
  // The module is loaded by the first reader, because a start is faster without it.
  const openCollector = async (): Promise<CollectMetrics> => {
    const { createCollector } = await import('./prometheus.ts')
    return createCollector(tallies, (bounds) => new Distribution(bounds))
  }
  let scraped: Promise<CollectMetrics> | undefined
  return {
    callStarted() {
      tallies.running += 1
    },
    callLeft() {
      tallies.running -= 1
    },
    callEnded({ tool, tenant, outcome, durationMs, isReplay }) {
      const key = byTenant ? `${tool} ${tenant}` : tool
      const { answered, replayed, seconds } = calls.get(key) ?? openTally(calls, labelsOf(tool, tenant))
      countOne(isReplay ? replayed : answered, outcome)
      if (!isReplay) seconds.add(durationMs / 1_000)
    },
    callsBecameAmbiguous(count) {
      tallies.ambiguousCalls += count
    },
    follow: (values) => void Object.assign(tallies, values),
    limitRefused: (name) => countOne(refused, name),
    requestAnswered: (route, method, status) => requests.add(route, method, status),
    groupCommitted(rows, durationMs) {
      commitRows.add(rows)
      commitSeconds.add(durationMs / 1_000)
    },
    async render() {
      scraped ??= openCollector()
      const collect = await scraped
      const { renderMetrics } = await import('./prometheus.ts')
      return renderMetrics(await collect())
    },
    openCollector,
  }
}

/** All counts and followed values, read when `/metrics` is requested. */
export interface Tallies extends FollowedValues {
  /** Calls by tool, and by tenant if tenants are counted separately. */
  readonly calls: ReadonlyMap<string, Readonly<ToolTally>>
  readonly refused: ReadonlyMap<LimitName, number>
  readonly commitRows: Distribution
  readonly commitSeconds: Distribution
  running: number
  ambiguousCalls: number
  readonly requests: readonly Readonly<RequestTally>[]
}

interface ToolTally {
  readonly labels: { readonly tool: string; readonly tenant?: string }
  /** Calls by outcome: `ok`, or the error code. */
  readonly answered: Map<string, number>
  readonly replayed: Map<string, number>
  /** Durations of calls that were not replays. */
  readonly seconds: Distribution
}

function openTally(calls: Map<string, ToolTally>, labels: ToolTally['labels']): ToolTally {
  const key = labels.tenant === undefined ? labels.tool : `${labels.tool} ${labels.tenant}`
  const known = calls.get(key)
  if (known !== undefined) return known
  const tally = { labels, answered: new Map(), replayed: new Map(), seconds: new Distribution(CALL_SECONDS) }
  calls.set(key, tally)
  return tally
}

function countOne<Name>(counts: Map<Name, number>, name: Name): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

interface RequestTally {
  readonly route: string
  readonly method: string
  readonly status: number
  count: number
}

class RequestTallies {
  readonly #byRoute = new Map<string, Map<string, Map<number, RequestTally>>>()
  readonly all: RequestTally[] = []

  add(route: string, method: string, status: number): void {
    const known = this.#byRoute.get(route)?.get(method)?.get(status)
    if (known === undefined) this.#open(route, method, status)
    else known.count += 1
  }

  #open(route: string, method: string, status: number): void {
    const tally = { route, method, status, count: 1 }
    this.all.push(tally)
    const byMethod = this.#byRoute.get(route) ?? new Map<string, Map<number, RequestTally>>()
    const byStatus = byMethod.get(method) ?? new Map<number, RequestTally>()
    this.#byRoute.set(route, byMethod.set(method, byStatus.set(status, tally)))
  }
}

export class Distribution {
  /** Upper bounds of the buckets. */
  readonly bounds: readonly number[]
  /** Number of values up to the bound of the same index and above the previous bound. */
  readonly buckets: number[]
  count = 0
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.buckets = bounds.map(() => 0)
  }

  add(value: number): void {
    this.count += 1
    this.sum += value
    const index = this.bounds.findIndex((bound) => value <= bound)
    if (index !== -1) this.buckets[index] = (this.buckets[index] ?? 0) + 1
  }
}

/** Ids that callers choose are shortened to this length in logs and spans. */
const MAX_ID_LENGTH = 256
const UNKNOWN = 'unknown'

interface ObserveOptions {
  readonly clock: Clock
  readonly store: Pick<Store, 'digest'>
  readonly noteDenial: NoteDenial
  readonly rejections: Pick<RejectionLog, 'count'>
  readonly metrics?: Metrics
  /** Writes one line per call; present if a person watches the log on a terminal. */
  readonly logCall?: ((call: CallLine) => void) | undefined
  /** Whether that line has the message of a failure: its reader is the author of the tools. */
  readonly explainsFailures?: boolean
}

/** Counts calls, adds them to the log line and the span of their request, and audits requests for hidden tools (rule 30a). */
export function observeCalls(gateway: Gateway, options: ObserveOptions): Gateway {
  const { metrics, clock, noteDenial } = options
  return {
    ...gateway,
    async call(principal, request) {
      const startedMs = clock.monotonicMs()
      metrics?.callStarted()
      try {
        const reply = await gateway.call(principal, request)
        const durationMs = clock.monotonicMs() - startedMs
        noteEnded(gateway, options, { principal, request, reply, durationMs })
        return reply
      } finally {
        metrics?.callLeft()
      }
    },
    async openSession(principal, request) {
      try {
        return await gateway.openSession(principal, request)
      } catch (error) {
        if (isToolError(error) && error.code === 'tool_not_found')
          noteHiddenTool(gateway, noteDenial, { principal, action: 'tool.call', name: request.toolId })
        throw error
      }
    },
  }
}

interface AnsweredCall {
  readonly principal: Principal
  readonly request: CallRequest
  readonly reply: CallReply
  readonly durationMs: number
}

function noteEnded(gateway: Gateway, options: ObserveOptions, answered: AnsweredCall): void {
  const { principal, request, reply, durationMs } = answered
  const { outcome, replayed } = reply
  // A new call names its tool; the tool of a replay or of a refused request is looked up.
  const ranTool = replayed ? undefined : reply.tool
  const tool = ranTool ?? gateway.catalogFor(principal).resolve(request.tool)?.id ?? UNKNOWN
  if (!outcome.ok && !replayed && ranTool === undefined) {
    const { code: refused, message } = outcome.error
    if (refused === 'tool_not_found')
      noteHiddenTool(gateway, options.noteDenial, { principal, action: 'tool.call', name: request.tool })
    // Parked calls are recorded, so they are not rejections. Hidden and unknown tools are counted in the same way (rule 2).
    if (isRefusal(refused) && refused !== 'approval_required')
      options.rejections.count(principal, { code: refused, message }, tool === UNKNOWN ? '' : tool)
  }
  const code = outcome.ok ? 'ok' : outcome.error.code
  const { tenant } = principal
  options.metrics?.callEnded({ tool, tenant, outcome: code, durationMs, isReplay: replayed })
  addToRequest(options, answered, tool, code)
  options.logCall?.(callLine(answered, tool, options.explainsFailures ?? false))
}

/** Adds the call to the log line and the span of its request, if either is written. */
function addToRequest(
  { store }: ObserveOptions,
  { principal, request, reply }: AnsweredCall,
  tool: string,
  outcome: string,
): void {
  const scope = requestScope.getStore()
  if (scope === undefined) return
  const isOwnTrace = request.traceId === scope.trace.traceId
  scope.call = {
    ...{ tool, outcome, isReplay: reply.replayed },
    record: recordOf(store, principal, reply.callId),
    callId: reply.callId.slice(0, MAX_ID_LENGTH),
    runId: reply.runId?.slice(0, MAX_ID_LENGTH),
    callerTraceId: isOwnTrace ? undefined : request.traceId?.slice(0, MAX_ID_LENGTH),
    tenant: principal.tenant,
    principal: opaquePrincipal(store, principal),
  }
}

/** An unknown tool is shown under the name that its caller used, so that a developer sees the misspelling. */
function callLine(
  { principal, request, reply: { outcome, replayed }, durationMs }: AnsweredCall,
  tool: string,
  explainsFailures: boolean,
): CallLine {
  return {
    tool: tool === UNKNOWN ? writeToolRef(request.tool).slice(0, MAX_ID_LENGTH) : tool,
    principal: principal.id,
    protocol: request.protocol,
    durationMs,
    outcome: outcome.ok ? 'ok' : outcome.error.code,
    isReplay: replayed,
    message: outcome.ok ? undefined : failureHint(outcome.error, explainsFailures),
  }
}

/** The address of an approval alone does not permit a decision, so it may be logged. The address of a consent page is only for the caller. */
function failureHint({ message, details }: CallError, explainsFailures: boolean): string | undefined {
  const { approval, authorization = [] } = details?.missing ?? {}
  if (approval !== undefined) return `Decide at ${approval.url}`
  if (!explainsFailures) return undefined
  return [message, ...authorization.map(({ url }) => url)].join(' ')
}
