import type { Authenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { fault } from '#kernel/base/errors'
import { ANONYMOUS, coversScope } from '#kernel/base/principal'
import type { HttpReply } from '#protocols/http-exchange'
import { createHttpApp, type HttpApp, type HttpAppOptions } from '#server/http/app'
import { refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { SourceView } from '#sources/kit/sources'
import type { LimitName } from '#stages/limits/settings'
import { Distribution, type Rendered } from './exposition.ts'
import type { NoteDenial } from './observe.ts'

interface EndedCall {
  /** A tool id from the catalog, or `unknown`: callers cannot add label values. */
  readonly tool: string
  readonly tenant: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly durationMs: number
  readonly isReplay: boolean
}

/** Numbers for `/metrics`. Noting one is cheap; they are put in words when somebody asks. */
export interface Metrics {
  callStarted(): void
  callLeft(): void
  callEnded(call: EndedCall): void
  /** `route` is the route's pattern, never a path. */
  requestAnswered(route: string, method: string, status: number): void
  /** A call, or a request, that a limit refused. */
  limitRefused(name: LimitName): void
  /** So many calls were cut, and nobody knows whether they took effect. */
  callsCut(calls: number): void
  /** Lets it be asked at each scrape whether new calls are taken. */
  followReadiness(read: () => boolean): void
  /** Lets sources be asked at each scrape. */
  followSources(read: () => readonly SourceView[]): void
  /** Lets the end of the certificate be asked at each scrape. */
  followCertificate(readExpiresAtMs: () => number): void
  /** One commit group of the store became durable. */
  groupCommitted(rows: number, durationMs: number): void
  render(): Promise<Rendered>
}

const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const COMMIT_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5]
const COMMIT_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

/** Tenants come with tokens too: those beyond are counted together, as `other`. */
const MAX_TENANTS = 1_000

/** @param byTenant whether calls are counted for each tenant */
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
  let running = 0
  let cut = 0
  let readReadiness = () => false
  let readSources: () => readonly SourceView[] = () => []
  let readCertificateEnd: (() => number) | undefined
  const tallies: Tallies = {
    ...{ calls, refused, commitRows, commitSeconds },
    running: () => running,
    cut: () => cut,
    isReady: () => readReadiness(),
    requests: () => requests.entries(),
    sources: () => readSources(),
    certificateEndsAtMs: () => readCertificateEnd?.(),
  }
  let rendering: Promise<() => Promise<Rendered>> | undefined
  return {
    callStarted() {
      running += 1
    },
    callLeft() {
      running -= 1
    },
    callEnded({ tool, tenant, outcome, durationMs, isReplay }) {
      const key = byTenant ? `${tool} ${tenant}` : tool
      const { answered, replayed, seconds } = calls.get(key) ?? openTally(calls, labelsOf(tool, tenant))
      countOne(isReplay ? replayed : answered, outcome)
      if (!isReplay) seconds.add(durationMs / 1_000)
    },
    callsCut(calls) {
      cut += calls
    },
    followReadiness(read) {
      readReadiness = read
    },
    followSources(read) {
      readSources = read
    },
    followCertificate(read) {
      readCertificateEnd = read
    },
    limitRefused(name) {
      countOne(refused, name)
    },
    requestAnswered(route, method, status) {
      requests.add(route, method, status)
    },
    groupCommitted(rows, durationMs) {
      commitRows.add(rows)
      commitSeconds.add(durationMs / 1_000)
    },
    async render() {
      // It comes with the first scrape: a start has no use for it, and a server that nobody scrapes never has.
      rendering ??= import('./prometheus.ts').then(({ openRegistry }) => openRegistry(tallies))
      return await (await rendering)()
    },
  }
}

/**
 * Everything that was counted, in plain numbers, read when `/metrics` is asked. Through the counters of a library the same
 * cost 5 µs of CPU per call, a tenth of the whole request.
 */
export interface Tallies {
  /** By tool, and tenant if those are told apart. */
  readonly calls: ReadonlyMap<string, Readonly<ToolTally>>
  readonly refused: ReadonlyMap<LimitName, number>
  readonly commitRows: Distribution
  readonly commitSeconds: Distribution
  running(): number
  /** Calls that became ambiguous. */
  cut(): number
  isReady(): boolean
  requests(): readonly Readonly<RequestTally>[]
  sources(): readonly SourceView[]
  /** `undefined` where there is none. */
  certificateEndsAtMs(): number | undefined
}

/** What one tool's calls add up to. */
interface ToolTally {
  readonly labels: { readonly tool: string; readonly tenant?: string }
  /** Calls by outcome: `ok`, or the error code. */
  readonly answered: Map<string, number>
  readonly replayed: Map<string, number>
  /** How long those took that were no replays. */
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
  readonly #all: RequestTally[] = []

  add(route: string, method: string, status: number): void {
    const known = this.#byRoute.get(route)?.get(method)?.get(status)
    if (known === undefined) this.#open(route, method, status)
    else known.count += 1
  }

  entries(): readonly Readonly<RequestTally>[] {
    return this.#all
  }

  #open(route: string, method: string, status: number): void {
    const tally = { route, method, status, count: 1 }
    this.#all.push(tally)
    const byMethod = this.#byRoute.get(route) ?? new Map<string, Map<number, RequestTally>>()
    const byStatus = byMethod.get(method) ?? new Map<number, RequestTally>()
    this.#byRoute.set(route, byMethod.set(method, byStatus.set(status, tally)))
  }
}

const NOBODY: Authenticator = {
  isConfigured: false,
  openCaller: ANONYMOUS,
  authenticate: () => ANONYMOUS,
  callerNamed: async () => undefined,
  refresh: () => {},
  close: async () => {},
}

/** `/metrics` on a port of its own, which a firewall or the loopback interface guards instead of a credential. */
export function createMetricsListener(
  port: number,
  settings: Settings['server'],
  world: Pick<HttpAppOptions, 'log' | 'metrics' | 'clock' | 'sharing'>,
  shown: ShownMetrics,
): HttpApp {
  const host = settings.metricsHost ?? '127.0.0.1'
  return createHttpApp({
    ...world,
    authenticator: NOBODY,
    settings: {
      host,
      port,
      publicUrl: undefined,
      bodyLimitBytes: 1_024,
      allowedOrigins: [],
      maxConnections: 100,
    },
    routes: [
      {
        method: 'GET',
        path: '/metrics',
        access: 'open',
        body: 'never',
        handle: () => metricsReply(shown),
        refuse: refuseWithMessage,
      },
    ],
  })
}

/** What a reader of metrics gets: of this process, or of all workers of its server. */
export type ShownMetrics = Pick<Metrics, 'render'>

interface MetricsRouteOptions {
  readonly metrics: ShownMetrics
  readonly authenticator: Authenticator
  /** Whether the server is bound to loopback only. */
  readonly isLoopback: boolean
  readonly noteDenial?: NoteDenial
}

const SCOPE = 'metrics:read'

/** `GET /metrics`: open on loopback while no credential is configured, otherwise for the scope `metrics:read`. */
export function createMetricsRoute(options: MetricsRouteOptions): ServerRoute {
  const { metrics, authenticator, noteDenial } = options
  const isOpen = (): boolean => !authenticator.isConfigured && options.isLoopback
  return {
    method: 'GET',
    path: '/metrics',
    access: 'authenticated',
    body: 'never',
    handle({ principal }) {
      if (isOpen() || coversScope(principal.scopes, SCOPE)) return metricsReply(metrics)
      noteDenial?.(principal, { action: 'metrics', resource: SCOPE, reason: 'scope' })
      throw fault('not_authorized', `Metrics need a credential with the scope ${SCOPE}.`)
    },
    refuse: refuseWithMessage,
  }
}

async function metricsReply(metrics: ShownMetrics): Promise<HttpReply> {
  const { contentType, text } = await metrics.render()
  return {
    status: 200,
    headers: { 'content-type': contentType, 'cache-control': 'no-store' },
    body: text,
  }
}
