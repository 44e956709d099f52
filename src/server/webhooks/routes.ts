/**
 * Serves the state of deliveries to the config's webhooks, and tests webhooks with samples. Messages are sent only to addresses in the
 * config, never to an address in a request. Neither secrets nor paths of addresses are shown: for a chat the path is a secret.
 */
import { LIST_WEBHOOKS, TEST_WEBHOOKS, type Webhooks } from '#admin-api/server'
import type { Settings } from '#config/settings'
import type { Webhook } from '#config/webhooks'
import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import { didYouMean } from '#kernel/base/nearest-name'
import type { OperatorAccess } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import type { ServerRoute } from '#server/http/router'
import { configuredHosts } from '#server/sources'
import type { Store } from '#store/collet-store'
import type { ListenerState } from '#store/notices'
import type { MessageContext } from './post.ts'
import { tryWebhook } from './samples.ts'

interface WebhookRoutesOptions extends MessageContext {
  webhooks(): readonly Webhook[]
  readonly notices: Pick<Store['notices'], 'listeners'>
}

export function createWebhookRoutes(
  access: OperatorAccess,
  options: WebhookRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_WEBHOOKS, async () =>
      listWebhooks(options.webhooks(), await options.notices.listeners()),
    ),
    serveOperation(access, TEST_WEBHOOKS, async ({ body }) => {
      const wanted = webhooksNamed(options.webhooks(), body.name)
      const tried = await Promise.all(wanted.map((webhook) => tryWebhook(webhook, options)))
      return { results: tried.flat() }
    }),
  ]
}

export function listWebhooks(webhooks: readonly Webhook[], states: readonly ListenerState[]): Webhooks {
  const byTarget = new Map(states.map((state) => [state.target, state]))
  const known = new Set(webhooks.map(({ target }) => target))
  return {
    webhooks: webhooks.map(({ name, url, target, format, events, approver, secret }) => {
      const state = byTarget.get(target)
      return {
        ...{ name, to: URL.parse(url)?.origin ?? '', format, events, approver: approver ?? null },
        signed: secret !== undefined,
        delivered: state?.delivered ?? 0,
        last_delivered_at: timeOf(state?.deliveredAtMs),
        waiting: state?.waiting ?? 0,
        waiting_since: timeOf(state?.waitingSinceMs),
        given_up: state?.givenUp ?? 0,
        last_failed_at: timeOf(state?.failedAtMs),
        last_failure: state?.failure ?? null,
      }
    }),
    unclaimed: states.reduce((sum, { target, waiting }) => sum + (known.has(target) ? 0 : waiting), 0),
  }
}

/** Finds the webhook with a name or an address, or all of them; throws if there is none. */
export function webhooksNamed(webhooks: readonly Webhook[], name: string | undefined): readonly Webhook[] {
  const found =
    name === undefined ? webhooks : webhooks.filter((each) => [each.name, each.url].includes(name))
  if (found.length > 0) return found
  if (webhooks.length === 0)
    throw badRequest('There are no webhooks. Write some into the config: docs/webhooks.md shows how.')
  const names = webhooks.map((webhook) => webhook.name)
  throw badRequest(
    `There is no webhook "${name}".${didYouMean(name ?? '', names)} The config has: ${names.join(', ')}.`,
  )
}

/** Opens a fetch to the webhooks of a config if no server runs; the caller closes it. */
export function openWebhookFetch(webhooks: readonly Webhook[], egress: Settings['egress']): GuardedFetch {
  const auth = { apiKeys: [], jwt: undefined }
  const oauth = { providers: {}, signIn: undefined, allowUnboundConsent: false }
  const hosts = configuredHosts({ auth, oauth, webhooks })
  return createGuardedFetch({ ...egress, allow: [...egress.allow, ...hosts], ownListeners: () => [] })
}
