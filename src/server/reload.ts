import type { Settings } from '#config/settings'
import { Secret } from '#core/secret'

/** What a server does with settings that were read again. */
export interface Reloaded {
  /** Names of settings that are in force from now on. */
  readonly applied: readonly string[]
  /** Names of settings that changed in the file and wait for a restart. */
  readonly needRestart: readonly string[]
}

/** What may change while calls run, by its name in the config. */
const LIVE = {
  'auth.apiKeys': ({ auth }) => auth.apiKeys,
  'auth.jwt': ({ auth }) => auth.jwt,
  'auth.issuers': ({ auth }) => auth.issuers,
  'auth.roles': ({ auth }) => auth.roles,
  limits: ({ limits }) => ({ ...limits, total: { ...limits.total, bodyBytes: 0 } }),
  budgets: ({ budgets }) => budgets,
  approvals: ({ approvals: { webhooks: _sent, ...terms } }) => terms,
  'calls.maxResultBytes': ({ calls }) => calls.maxResultBytes,
} as const satisfies Readonly<Record<string, (settings: Settings) => unknown>>

/** What the parts of a running server were built with. */
const FIXED = {
  tools: ({ tools }) => tools.map(({ id, definitionHash }) => [id, definitionHash]),
  toolkits: ({ toolkits }) => toolkits,
  sources: ({ sources }) => sources,
  server: ({ server }) => server,
  store: ({ store, dataFolder }) => [store, dataFolder],
  'auth.required': ({ auth }) => auth.required,
  oauth: ({ oauth }) => oauth,
  'calls.retentionHours': ({ calls }) => calls.retentionHours,
  journal: ({ journal }) => journal,
  egress: ({ egress }) => egress,
  'limits.total.bodyBytes': ({ limits }) => limits.total.bodyBytes,
  'approvals.webhooks': ({ approvals }) => approvals.webhooks,
  hooks: ({ hooks }) => hooks,
  mcp: ({ mcp }) => mcp,
  'log.level': ({ logLevel }) => logLevel,
  'telemetry.otlpEndpoint': ({ otlpEndpoint }) => otlpEndpoint,
} as const satisfies Readonly<Record<string, (settings: Settings) => unknown>>

/** Which settings differ, by when they take effect. */
export function compareSettings(before: Settings, after: Settings): Reloaded {
  const differing = (parts: Readonly<Record<string, (settings: Settings) => unknown>>) =>
    Object.entries(parts).flatMap(([name, part]) => (isSame(part(before), part(after)) ? [] : [name]))
  return { applied: differing(LIVE), needRestart: differing(FIXED) }
}

/** The settings in force after a reload: the new ones where they may change, the old ones elsewhere. */
export function mergeSettings(before: Settings, after: Settings): Settings {
  const { apiKeys, jwt, issuers, roles } = after.auth
  return {
    ...before,
    auth: {
      ...before.auth,
      ...{ apiKeys, jwt },
      ...(issuers === undefined ? {} : { issuers }),
      ...(roles === undefined ? {} : { roles }),
    },
    limits: { ...after.limits, total: { ...after.limits.total, bodyBytes: before.limits.total.bodyBytes } },
    budgets: after.budgets,
    approvals: { ...after.approvals, webhooks: before.approvals.webhooks },
    calls: { ...before.calls, maxResultBytes: after.calls.maxResultBytes },
  }
}

/** As a person who compares two files would say it: a function is its text. */
function isSame(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true
  if (left instanceof Secret && right instanceof Secret) return left.reveal() === right.reveal()
  if (typeof left === 'function' && typeof right === 'function') return String(left) === String(right)
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
  if (left instanceof Map && right instanceof Map) return isSame([...left], [...right])
  const names = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...names].every((name) => isSame(Reflect.get(left, name), Reflect.get(right, name)))
}
