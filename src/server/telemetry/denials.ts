/**
 * Refusals for the audit stream (rule 30a): a tool that its caller may not see, a scope that a credential lacks, a
 * credential that is not valid. The composition root opens one log for each process; routes and the gateway write to it through
 * `NoteDenial`. A refusal costs the same whether or not a hidden tool exists, so that timing reveals nothing (OWP-22).
 */

import { isJwtShaped, type RequestHeaders, readBearer } from '#auth/authenticator'
import type { Clock } from '#kernel/base/clock'
import type { ToolRef } from '#kernel/base/ids'
import type { Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT, opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { Denial, DenialFacts, DenialReason } from '#kernel/journal/events'
import { isForTenant, type Tool } from '#kernel/tool/tool'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import type { Store } from '#store/collet-store'

/** A principal that sees every tool; no credential has it. */
const EVERYTHING: Principal = { id: 'audit', tenant: DEFAULT_TENANT, scopes: ['*'], seesEveryTenant: true }
/** Longer than the name of any tool. Notes stay in memory for a second, so longer names are left out. */
const MAX_NAME_LENGTH = 1_000

/** Audits a request for a tool that its principal cannot see. If the tool does not exist, nothing is written. */
export function noteHiddenTool(
  gateway: Gateway,
  note: NoteDenial,
  { principal, action, name }: HiddenTool,
): void {
  const base = typeof name === 'string' ? name : name.base
  const shortName = base.length > MAX_NAME_LENGTH ? '' : name
  // The tool is looked up a second later, so that the request takes equally long for a hidden and for an unknown tool.
  note(principal, () => {
    const all = gateway.catalogFor(EVERYTHING)
    const tool = typeof shortName === 'string' ? all.find(shortName) : all.resolve(shortName)
    if (tool === undefined) return undefined
    return { action, resource: tool.catalogId, reason: hidingReason(gateway, principal, tool) }
  })
}

interface HiddenTool {
  readonly principal: Principal
  readonly action: 'tool.call' | 'tool.read'
  /** A catalog id, or the reference of a call. */
  readonly name: string | ToolRef
}

function hidingReason(gateway: Gateway, principal: Principal, { id, policy }: Tool): DenialReason {
  if (!isForTenant(policy, principal.tenant)) return 'tenant'
  // The catalog decides which tools an allow-list or a toolset selects.
  const listed = { ...principal, scopes: EVERYTHING.scopes, seesEveryTenant: true as const }
  return gateway.catalogFor(listed).get(id) === undefined ? 'allowlist' : 'scope'
}

/** Time within which equal denials after the first become one line with a count. */
const WINDOW_MS = 60_000
/** Maximum number of different denials of one principal in a window; further denials are counted in one line. */
const MAX_PER_PRINCIPAL = 20
/** Maximum number of different denials of all principals in a window; further denials are counted only in the log. */
const MAX_PER_WINDOW = 200
/** Action and resource of the line that counts further denials. */
const ANY = '*'
/** Delay before denials whose facts are functions are evaluated and written. */
const TICK_MS = 1_000
/** Maximum number of denials whose facts are functions between two ticks. */
const MAX_PENDING = 10_000

type Caller = Pick<Principal, 'id' | 'tenant'>

/**
 * Writes a refusal to the audit stream. Never throws, never waits. If `facts` is a function, it is called on the next tick, and
 * `undefined` means that nothing was refused, because nothing has that name (OWP-22).
 */
export type NoteDenial = (principal: Caller, facts: DenialFacts | (() => DenialFacts | undefined)) => void

interface PendingNote {
  readonly principal: Caller
  readonly facts: Parameters<NoteDenial>[1]
  readonly atMs: number
}

/**
 * Writes denials to the store (rule 30a, OWP-62). The first of a kind is written at once, its repetitions as one line a
 * minute later: a flood writes at most two lines per kind and 400 a minute in all. Denials whose facts are functions are
 * evaluated a second later, on a tick that always commits, so that a hidden and an unknown tool cost the same.
 */
export function createDenialLog(
  store: Pick<Store, 'audit' | 'digest'>,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
) {
  const pending: PendingNote[] = []
  const fresh: Denial[] = []
  const counted = new Map<string, { readonly denial: Denial; count: number }>()
  const perPrincipal = new Map<string, number>()
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

  /** Returns the line to write now if it is the first of its kind. */
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

  const read = ({ principal, facts, atMs }: PendingNote): readonly Denial[] => {
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

  const takePending = (): readonly Denial[] => {
    clearTimeout(tick)
    tick = undefined
    return pending.splice(0).flatMap(read)
  }

  /** Returns the lines of the window that ends. */
  const endWindow = (): readonly Denial[] => {
    clearTimeout(windowEnd)
    windowEnd = undefined
    const found = [...fresh.splice(0), ...takePending()]
    const atMs = clock.nowMs()
    const repeated = [...counted.values()]
      .filter((each) => each.count > 0)
      .map((each) => ({ ...each.denial, atMs, count: each.count }))
    if (dropped > 0)
      log.warn({ dropped }, 'more refusals in a minute than the audit stream accepts; they were dropped')
    counted.clear()
    perPrincipal.clear()
    dropped = 0
    return [...found, ...repeated]
  }

  const note: NoteDenial = (principal, facts) => {
    windowEnd ??= setTimeout(() => write(endWindow()), WINDOW_MS).unref()
    if (typeof facts === 'object') {
      const lines = read({ principal, facts, atMs: clock.nowMs() })
      if (lines.length > 0 && fresh.push(...lines) === 1) setImmediate(() => write(fresh.splice(0)))
      return
    }
    if (pending.length >= MAX_PENDING) dropped += 1
    else pending.push({ principal, facts, atMs: clock.nowMs() })
    tick ??= setTimeout(() => write(takePending()), TICK_MS).unref()
  }

  return {
    note,
    /** Writes the denials that are still counted. */
    async close(): Promise<void> {
      const last = endWindow()
      if (last.length > 0) write(last)
      await writing
    },
  }
}

/** Stands for every caller whose credential was refused. */
export const UNKNOWN_CALLER: Caller = { id: 'unknown', tenant: DEFAULT_TENANT }

/** Audits requests without a valid credential. Only the kind of the credential and the start of the path are kept. */
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
