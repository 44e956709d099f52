import type { Settings } from '#config/settings'
import type { Webhook } from '#config/webhooks'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import type { Clock } from '#kernel/base/clock'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import {
  adminRoute,
  badRequest,
  momentOf,
  NO_STORE,
  type OperatorAccess,
  requireServerScope,
} from '#server/admin/access'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { configuredHosts } from '#server/sources'
import type { Store } from '#store/collet-store'
import type { ListenerState } from '#store/notices'
import { tryWebhook } from './samples.ts'

const SCOPE = 'admin:webhooks'

interface WebhookRoutesOptions {
  webhooks(): readonly Webhook[]
  readonly notices: Pick<Store['notices'], 'listeners'>
  readonly fetch: typeof fetch
  readonly clock: Clock
  publicUrl(): string
  consoleUrl?(): string | undefined
}

/** Who is told of what and how that goes, and trying it. Only addresses of the config are written to: none is taken from a request. */
export function createWebhookRoutes(
  options: WebhookRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  return [
    adminRoute(access, 'GET', '/admin/webhooks', async ({ principal }) => {
      requireServerScope(principal, SCOPE, access)
      const states = await options.notices.listeners()
      return jsonReply(200, listWebhooks(options.webhooks(), states), NO_STORE)
    }),
    adminRoute(access, 'POST', '/admin/webhooks/test', async ({ principal, body }) => {
      requireServerScope(principal, SCOPE, access)
      const meant = webhooksNamed(options.webhooks(), readName(body))
      const tried = await Promise.all(meant.map((webhook) => tryWebhook(webhook, options)))
      return jsonReply(200, { results: tried.flat() }, NO_STORE)
    }),
  ]
}

export type RenderedWebhooks = ReturnType<typeof listWebhooks>
export type RenderedWebhook = RenderedWebhooks['webhooks'][number]

/** As operators see them: never a secret, nor the path of an address, which is one for a chat. */
export function listWebhooks(webhooks: readonly Webhook[], states: readonly ListenerState[]) {
  const byTarget = new Map(states.map((state) => [state.target, state]))
  const known = new Set(webhooks.map(({ target }) => target))
  return {
    webhooks: webhooks.map(({ name, url, target, format, events, approver, secret }) => {
      const state = byTarget.get(target)
      return {
        ...{ name, to: URL.parse(url)?.origin ?? '', format, events, approver: approver ?? null },
        signed: secret !== undefined,
        delivered: state?.delivered ?? 0,
        last_delivered_at: momentOf(state?.deliveredAtMs),
        waiting: state?.waiting ?? 0,
        waiting_since: momentOf(state?.waitingSinceMs),
        given_up: state?.givenUp ?? 0,
        last_failed_at: momentOf(state?.failedAtMs),
        last_failure: state?.failure ?? null,
      }
    }),
    /** Messages for receivers that this config does not have. */
    unclaimed: states.reduce((sum, { target, waiting }) => sum + (known.has(target) ? 0 : waiting), 0),
  }
}

/** The one of a name or an address, or all; throws when there is none. */
export function webhooksNamed(webhooks: readonly Webhook[], name: string | undefined): readonly Webhook[] {
  const meant =
    name === undefined ? webhooks : webhooks.filter((each) => [each.name, each.url].includes(name))
  if (meant.length > 0) return meant
  if (webhooks.length === 0)
    throw badRequest('There are no webhooks. Write some into the config: docs/webhooks.md shows how.')
  const names = webhooks.map((webhook) => webhook.name)
  throw badRequest(
    `There is no webhook "${name}".${didYouMean(name ?? '', names)} The config has: ${names.join(', ')}.`,
  )
}

function readName(body: JsonValue | undefined): string | undefined {
  if (body === undefined) return undefined
  if (!isJsonObject(body) || Object.keys(body).some((member) => member !== 'name'))
    throw badRequest('Send a JSON object with an optional `name`.')
  const { name } = body
  if (name === undefined || typeof name === 'string') return name
  throw badRequest('`name` is the name of a webhook.')
}

/** The way to the addresses of a config, where no server runs; close it. */
export function openWayTo(webhooks: readonly Webhook[], egress: Settings['egress']): GuardedFetch {
  const none = {
    ...{ auth: { apiKeys: [], jwt: undefined } },
    oauth: { providers: {}, signIn: undefined, allowUnboundConsent: false },
  }
  const hosts = configuredHosts({ ...none, webhooks })
  return createGuardedFetch({ ...egress, allow: [...egress.allow, ...hosts], ownListeners: () => [] })
}
