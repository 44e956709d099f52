import { shortHash } from '#kernel/base/hash'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { NOTICE_KINDS, type NoticeKind } from '#kernel/journal/notices'
import type { NoticeListener } from '#store/notices'
import { configError } from './load.ts'
import type { ParsedConfig } from './schema.ts'

/*
 * The receivers of webhooks, from a config.
 * The server sends notices to them, and `collet webhooks` tests them.
 * Invariant: every receiver has a unique name, and its messages are stored under a digest of its address and approver.
 */

export interface Webhook extends NoticeListener {
  readonly name: string
  readonly url: string
  /** Signs the messages; without a secret they are not signed. */
  readonly secret: { reveal(): string } | undefined
  readonly format: ParsedConfig['webhooks'][number]['format']
  /** The approver that the one-time link in its messages is for; without an approver there is no link. */
  readonly approver: string | undefined
  /** Entries of `events` in the config. */
  readonly events: readonly string[]
}

export function toWebhooks(
  { approvals, webhooks }: Pick<ParsedConfig, 'approvals' | 'webhooks'>,
  file?: string,
): readonly Webhook[] {
  const written = [
    ...approvals.webhooks.map(({ format, ...rest }, index) => ({
      ...rest,
      format: format === 'standard' ? ('json' as const) : format,
      name: undefined,
      events: ['approval.requested'],
      where: `approvals.webhooks[${index}]`,
    })),
    ...webhooks.map((webhook, index) => ({ ...webhook, where: `webhooks[${index}]` })),
  ]
  const found = new Map<string, Webhook>()
  const names = new Set(written.flatMap(({ name }) => name ?? []))
  for (const { where, name, url, approver, events, secret, format } of written) {
    const target = shortHash(JSON.stringify([url, approver ?? null]))
    if (found.has(target)) {
      const message = 'is also the address of another webhook. Write one entry with all its events.'
      throw configError(message, defined({ file, where: `${where}.url` }))
    }
    const unique = name ?? freeName(URL.parse(url)?.hostname ?? 'webhook', names)
    names.add(unique)
    const kinds = new Set(events.flatMap(kindsOf))
    found.set(target, { name: unique, target, url, secret, format, approver, events, kinds })
  }
  return [...found.values()]
}

function freeName(wanted: string, taken: ReadonlySet<string>): string {
  let name = wanted
  for (let suffix = 2; taken.has(name); suffix += 1) name = `${wanted}-${suffix}`
  return name
}

/** Kinds that an entry of `events` selects: one, all with a prefix (`budget.*`), or all (`*`). */
function kindsOf(event: string): readonly NoticeKind[] {
  if (event === '*') return NOTICE_KINDS
  return NOTICE_KINDS.filter((kind) =>
    event.endsWith('.*') ? kind.startsWith(event.slice(0, -1)) : kind === event,
  )
}

/** Entries of `events` that select nothing, each with a suggestion. */
export function unknownEvents(webhooks: readonly Pick<Webhook, 'name' | 'events'>[]): readonly string[] {
  const known = [...new Set(NOTICE_KINDS.flatMap((kind) => [kind, `${kind.split('.')[0]}.*`]))]
  return webhooks.flatMap(({ name, events }) =>
    events
      .filter((event) => kindsOf(event).length === 0)
      .map((event) => `webhook "${name}": there is no event "${event}".${didYouMean(event, known)}`),
  )
}

/** A receiver that is not configured. It gets all events, unsigned. */
export function adHocWebhook(url: string, format: Webhook['format']): Webhook {
  return {
    ...{ name: URL.parse(url)?.hostname ?? url, target: '', url, format, events: ['*'] },
    ...{ secret: undefined, approver: undefined, kinds: new Set(NOTICE_KINDS) },
  }
}

/** The message format that the host of an address expects. */
export function guessFormat(url: string): Webhook['format'] {
  const host = URL.parse(url)?.hostname ?? ''
  if (host === 'hooks.slack.com') return 'slack'
  return /(^|\.)(logic\.azure\.com|webhook\.office\.com|powerplatform\.com)$/.test(host) ? 'teams' : 'json'
}
