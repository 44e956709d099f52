import { isJwtShaped, type RequestHeaders, readBearer } from '#auth/authenticator'
import type { Clock } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import { writeToolRef } from '#kernel/base/ids'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT, opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { CallError, CallReply, CallRequest } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { Denial, DenialFacts, DenialReason } from '#kernel/journal/events'
import { isForTenant, type Tool } from '#kernel/tool/tool'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { requestScope } from '#server/http/exchange'
import type { Store } from '#store/collet-store'
import type { Metrics } from './metrics.ts'
import type { ToldCall } from './terminal-lines.ts'

/** Sees every tool; nobody's credential gives it. */
const EVERYTHING: Principal = { id: 'audit', tenant: DEFAULT_TENANT, scopes: ['*'], seesEveryTenant: true }

/** The same gateway, whose refusals to principals that may not see a tool are audited (rule 30a). Unknown tools are nobody's. */
export function auditHidden(gateway: Gateway, note: NoteDenial): Gateway {
  const all = () => gateway.catalogFor(EVERYTHING)
  return {
    ...gateway,
    call: (principal, request) =>
      gateway.call(principal, request).then((reply) => {
        if (!reply.outcome.ok && reply.outcome.error.code === 'tool_not_found') {
          const tool = { ...request.tool, base: shortName(request.tool.base) }
          const find = () => all().resolve(tool)
          noteHidden(gateway, note, { principal, action: 'tool.call', find })
        }
        return reply
      }),
    async openSession(principal, request) {
      try {
        return await gateway.openSession(principal, request)
      } catch (error) {
        if (isToolError(error) && error.code === 'tool_not_found') {
          const name = shortName(request.toolId)
          const find = () => all().find(name)
          noteHidden(gateway, note, { principal, action: 'tool.call', find })
        }
        throw error
      }
    },
  }
}

/** Audits look-ups of one tool by its catalog id alike. */
export function auditRead(
  gateway: Gateway,
  note: NoteDenial,
): (principal: Principal, catalogId: string) => void {
  return (principal, catalogId) => {
    const name = shortName(catalogId)
    const find = () => gateway.catalogFor(EVERYTHING).find(name)
    noteHidden(gateway, note, { principal, action: 'tool.read', find })
  }
}

interface Denied {
  readonly principal: Principal
  readonly action: 'tool.call' | 'tool.read'
  /** `undefined` when there is no such tool at all. */
  find(): Tool | undefined
}

/** Of no use to anybody when it is longer than any tool's, and kept for a second. */
function shortName(name: string): string {
  return name.length > MAX_NAME_LENGTH ? '' : name
}

const MAX_NAME_LENGTH = 1_000

/** Which of the two it was is looked for later, by nobody's request. */
function noteHidden(gateway: Gateway, note: NoteDenial, { principal, action, find }: Denied): void {
  note(principal, () => {
    const tool = find()
    if (tool === undefined) return undefined
    return { action, resource: tool.catalogId, reason: reasonOf(gateway, principal, tool) }
  })
}

function reasonOf(gateway: Gateway, principal: Principal, { id, policy }: Tool): DenialReason {
  if (!isForTenant(policy, principal.tenant)) return 'tenant'
  // Which tools an allow-list or a toolset means is for the catalog to say.
  const listed = { ...principal, scopes: EVERYTHING.scopes, seesEveryTenant: true as const }
  return gateway.catalogFor(listed).get(id) === undefined ? 'allowlist' : 'scope'
}

/** Equal denials within this time are one line with a count, after the first. */
const WINDOW_MS = 60_000
/** Different denials of one principal that a window tells apart; the others are one line. */
const MAX_PER_PRINCIPAL = 20
/** The same of all principals together; the others are counted in the server's log alone. */
const MAX_PER_WINDOW = 200
/** Stands for the actions and resources of the others. */
const ANY = '*'
/** How long after a refusal it is written. */
const TICK_MS = 1_000
/** Noted between two ticks. */
const MAX_NOTED = 10_000

type Refused = Pick<Principal, 'id' | 'tenant'>

/**
 * Writes a refusal to the audit stream. Never throws, never waits. Facts may be found later: `undefined` then means that nothing was
 * refused, because there is nothing of that name. It costs the same, so that nobody learns by time what is hidden (OWP-22).
 */
export type NoteDenial = (principal: Refused, facts: DenialFacts | (() => DenialFacts | undefined)) => void

interface Noted {
  readonly principal: Refused
  readonly facts: DenialFacts | (() => DenialFacts | undefined)
  readonly atMs: number
}

interface Counted {
  readonly denial: Denial
  count: number
}

interface DenialLog {
  readonly note: NoteDenial
  /** Writes what is still counted. */
  close(): Promise<void>
}

/**
 * Denials on their way to the store (rule 30a, OWP-62). The first of a kind is written at once, its repetitions as one line a
 * minute later: a flood writes at most two lines per kind and 400 a minute in all. Where nobody may learn whether there was
 * anything to refuse, it is looked at a second later, on a tick that always commits: whatever a caller asked for in vain,
 * hidden or not there at all, costs the same at the same time.
 */
export function createDenialLog(world: {
  readonly store: Pick<Store, 'audit' | 'digest'>
  readonly clock: Clock
  readonly log: Logger
}): DenialLog {
  const { store, clock, log } = world
  let noted: Noted[] = []
  const fresh: Denial[] = []
  let counted = new Map<string, Counted>()
  let perPrincipal = new Map<string, number>()
  let dropped = 0
  let tick: NodeJS.Timeout | undefined
  let windowEnd: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = (denials: readonly Denial[]): void => {
    writing = writing.then(async () => {
      try {
        await store.audit.recordDenials(denials)
      } catch (err) {
        log.error({ err, denials: denials.length }, 'refusals could not be written to the audit stream')
      }
    })
  }

  /** The line to write now, if it is the first of its kind. */
  const count = (key: string, denial: Denial): readonly Denial[] => {
    const known = counted.get(key)
    if (known !== undefined) {
      known.count += 1
      return []
    }
    if (counted.size >= MAX_PER_WINDOW) {
      dropped += 1
      return []
    }
    counted.set(key, { denial, count: 0 })
    return [denial]
  }

  const read = ({ principal, facts, atMs }: Noted): readonly Denial[] => {
    const found = typeof facts === 'function' ? facts() : facts
    if (found === undefined) return []
    const who = opaquePrincipal(store, principal)
    const denial = { atMs, tenant: principal.tenant, principal: who, ...found, count: 1 }
    const key = JSON.stringify([who, found.action, found.resource, found.reason])
    if (counted.has(key)) return count(key, denial)
    const kinds = (perPrincipal.get(who) ?? 0) + 1
    if (kinds > MAX_PER_PRINCIPAL) return count(who, { ...denial, action: ANY, resource: ANY })
    perPrincipal.set(who, kinds)
    return count(key, denial)
  }

  const takeNoted = (): readonly Denial[] => {
    clearTimeout(tick)
    tick = undefined
    const taken = noted
    noted = []
    return taken.flatMap(read)
  }

  /** Gives the lines of the window that ends. */
  const endWindow = (): readonly Denial[] => {
    clearTimeout(windowEnd)
    windowEnd = undefined
    const found = [...fresh.splice(0), ...takeNoted()]
    const atMs = clock.nowMs()
    const repeated = [...counted.values()]
      .filter((each) => each.count > 0)
      .map((each) => ({ ...each.denial, atMs, count: each.count }))
    if (dropped > 0) log.warn({ dropped }, 'more refusals than the audit stream takes in a minute')
    counted = new Map()
    perPrincipal = new Map()
    dropped = 0
    return [...found, ...repeated]
  }

  return {
    note(principal, facts) {
      windowEnd ??= setTimeout(() => write(endWindow()), WINDOW_MS).unref()
      if (typeof facts === 'object') {
        const lines = read({ principal, facts, atMs: clock.nowMs() })
        if (lines.length > 0 && fresh.push(...lines) === 1) setImmediate(() => write(fresh.splice(0)))
        return
      }
      if (noted.length >= MAX_NOTED) dropped += 1
      else noted.push({ principal, facts, atMs: clock.nowMs() })
      tick ??= setTimeout(() => write(takeNoted()), TICK_MS).unref()
    },
    async close() {
      const last = endWindow()
      if (last.length > 0) write(last)
      await writing
    },
  }
}

/** Stands for every caller whose credential was refused. */
export const UNKNOWN_CALLER: Refused = { id: 'unknown', tenant: DEFAULT_TENANT }

/** Audits requests without a good credential: of what was sent only the kind is kept, and of the path only where it begins. */
export function auditCredentials(note: NoteDenial): (headers: RequestHeaders, route: string) => void {
  return (headers, route) => {
    const [, group = ''] = route.split('/')
    const where = group === '' ? 'other paths' : `/${group}`
    const resource = `${credentialKind(headers)} at ${where}`
    note(UNKNOWN_CALLER, { action: 'authenticate', resource, reason: 'credential' })
  }
}

function credentialKind({ authorization, cookie, ...headers }: RequestHeaders): string {
  if (authorization !== undefined) {
    const bearer = readBearer(authorization)
    if (bearer === undefined) return 'authorization header'
    return isJwtShaped(bearer) ? 'JWT' : 'bearer key'
  }
  const named = API_KEY_HEADERS.find((name) => headers[name] !== undefined)
  return named ?? (cookie === undefined ? 'no credential' : 'browser session')
}

/** Of ids that callers made. */
const MAX_ID_LENGTH = 256

interface ObserveCallsOptions {
  readonly metrics: Metrics
  readonly clock: Clock
  readonly store: Pick<Store, 'digest'>
  /** Where the call is recorded: call ids are callers' texts, which no log holds. */
  recordOf(principal: Principal, callId: string): string
  /** Where a person watches: hears of every call. */
  readonly tellCall?: ((told: ToldCall) => void) | undefined
  /** Whether that person is the author of the tools, and sees what callers see of a failure. */
  readonly tellsWhy?: boolean
}

/** The same gateway, whose calls are counted, timed and named in the request's log line and span. */
export function observeCalls(gateway: Gateway, options: ObserveCallsOptions): Gateway {
  const { metrics, clock, store, recordOf, tellCall, tellsWhy = false } = options

  /** Labels come from the catalog only, so a caller cannot make new ones. Only replays and refusals are looked up here. */
  const toolOf = (principal: Principal, request: CallRequest, { tool, replayed }: CallReply): string =>
    (replayed ? undefined : tool) ?? gateway.catalogFor(principal).resolve(request.tool)?.id ?? 'unknown'

  const observe = (
    tool: string,
    principal: Principal,
    request: CallRequest,
    reply: CallReply,
    durationMs: number,
  ): void => {
    const { tenant } = principal
    const outcome = reply.outcome.ok ? 'ok' : reply.outcome.error.code
    metrics.callEnded({ tool, tenant, outcome, durationMs, isReplay: reply.replayed })
    const scope = requestScope.getStore()
    if (scope === undefined) return
    const callerTraceId =
      request.traceId === scope.trace.traceId ? undefined : request.traceId?.slice(0, MAX_ID_LENGTH)
    const [callId, runId] = [reply.callId.slice(0, MAX_ID_LENGTH), reply.runId?.slice(0, MAX_ID_LENGTH)]
    const record = recordOf(principal, reply.callId)
    const caller = { tenant, principal: opaquePrincipal(store, principal) }
    scope.call = { tool, outcome, isReplay: reply.replayed, record, callId, runId, callerTraceId, ...caller }
  }

  return {
    ...gateway,
    async call(principal, request) {
      const startedMs = clock.monotonicMs()
      metrics.callStarted()
      let reply: CallReply | undefined
      try {
        reply = await gateway.call(principal, request)
        return reply
      } finally {
        metrics.callLeft()
        if (reply !== undefined) {
          const tool = toolOf(principal, request, reply)
          const durationMs = clock.monotonicMs() - startedMs
          observe(tool, principal, request, reply, durationMs)
          tellCall?.(toldCall({ tool, principal, request, reply, durationMs, tellsWhy }))
        }
      }
    },
  }
}

interface EndedCall {
  readonly tool: string
  readonly principal: Principal
  readonly request: CallRequest
  readonly reply: CallReply
  readonly durationMs: number
  readonly tellsWhy: boolean
}

/** A tool that there is not is called what its caller called it: one who develops has misspelled it. */
function toldCall({ tool, principal, request, reply, durationMs, tellsWhy }: EndedCall): ToldCall {
  const { outcome, replayed } = reply
  return {
    tool: tool === 'unknown' ? writeToolRef(request.tool).slice(0, MAX_ID_LENGTH) : tool,
    principal: principal.id,
    protocol: request.protocol,
    durationMs,
    outcome: outcome.ok ? 'ok' : outcome.error.code,
    isReplay: replayed,
    message: outcome.ok ? undefined : whatToKnow(outcome.error, tellsWhy),
  }
}

/** Where a waiting call is decided; that address lets nobody in by itself. The page of a consent is for its caller alone. */
function whatToKnow({ message, details }: CallError, tellsWhy: boolean): string | undefined {
  const { approval, authorization = [] } = details?.missing ?? {}
  if (approval !== undefined) return `Decide at ${approval.url}`
  if (!tellsWhy) return undefined
  return [message, ...authorization.map(({ url }) => url)].join(' ')
}
