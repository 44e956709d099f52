import type { Webhooks } from '#admin-api/server'
import type { Webhook } from '#config/webhooks'
import { listWebhooks } from '#server/webhooks/routes'
import type { Store } from '#store/collet-store'
import { type Check, type CheckedStore, ok, warn } from './check-names.ts'
import { messageOf } from './output.ts'

/**
 * The part of `collet doctor` that reads the store: whether it has API keys, which sources it contains, and what waits
 * for an operator (pins, approvals, ambiguous calls, webhook messages). A store that cannot be read returns no findings
 * here; the doctor's own store check reports it.
 */

interface StoreContents {
  /** Whether the store ever had a key; once it did, every caller needs a credential. */
  readonly hasKeys: boolean
  /** Number of served tools as last accepted, by source. */
  readonly imported: ReadonlyMap<string, number>
  readonly checks: readonly Check[]
}

const NOTHING: StoreContents = { hasKeys: false, imported: new Map(), checks: [] }
/** Counting stops here; the commands that list the items show the rest. */
const MAX_COUNTED = 1_000

interface CheckedContents {
  readonly store: CheckedStore
  readonly nowMs: number
  readonly webhooks: readonly Webhook[]
  /** Sources that are not served, which `checkNames` reports. */
  readonly withheld: ReadonlySet<string>
}

/** Reads keys, sources and everything that waits for an operator. */
export async function readStoreContents(checked: CheckedContents): Promise<StoreContents> {
  const { store, nowMs, webhooks, withheld } = checked
  if (store === undefined || store instanceof Error) return NOTHING
  try {
    const { imported, waiting } = await countPins(store)
    const keys = await store.keys.listKeys({ limit: MAX_COUNTED })
    const valid = keys.filter(
      ({ revokedAtMs, expiresAtMs }) =>
        revokedAtMs === undefined && (expiresAtMs === undefined || expiresAtMs > nowMs),
    )
    return {
      hasKeys: keys.length > 0,
      imported,
      checks: [
        ...(keys.length === 0 ? [] : [keysCheck(valid.length)]),
        ...sourcesCheck([...imported].filter(([source]) => !withheld.has(source))),
        ...waitingChecks(waiting, 'changed definition', 'an operator', 'collet pins list shows them.'),
        ...(await checkWaitingCalls(store)),
        ...checkWebhooks(listWebhooks(webhooks, await store.notices.listeners())),
      ],
    }
  } catch (error) {
    const text = `The store cannot be read: ${messageOf(error)}`
    return { ...NOTHING, checks: [warn('store', text, 'See the store check above.')] }
  }
}

async function countPins(store: Store) {
  const imported = new Map<string, number>()
  let waiting = 0
  for (const source of new Set([
    ...(await store.sources.list()).map(({ key }) => key),
    ...(await store.pins.sources()),
  ])) {
    const { pins } = await store.pins.read(source)
    imported.set(source, pins.filter(({ isServed }) => isServed).length)
    waiting += pins.filter((pin) => pin.waiting !== undefined).length
  }
  return { imported, waiting }
}

function keysCheck(valid: number): Check {
  if (valid > 0) return ok('keys', `${countOf(valid, 'valid key')} in the store`)
  const text = 'Every key in the store is revoked or expired, and callers need a valid key'
  return warn('keys', text, 'Create one with collet keys create.')
}

function sourcesCheck(imported: readonly (readonly [string, number])[]): readonly Check[] {
  if (imported.length === 0) return []
  const each = imported.map(
    ([source, tools]) => `${source} (${tools === 0 ? 'no tools read yet' : countOf(tools, 'tool')})`,
  )
  return [ok('source', `${each.join(', ')}, as last seen; collet sources shows their current state`)]
}

async function checkWaitingCalls(store: Store): Promise<readonly Check[]> {
  const approvals = await store.approvals.list({ state: 'pending', limit: MAX_COUNTED })
  const { calls } = await store.list({ states: ['ambiguous'], limit: MAX_COUNTED })
  const parked = waitingChecks(approvals.length, 'call', 'approval', 'collet approvals list shows them.')
  if (calls.length === 0) return parked
  const text = `It is unknown whether ${countOf(calls.length, 'call')} took effect`
  const advice =
    'collet calls --state ambiguous lists them, collet calls show prints the request, collet calls settle records what happened.'
  return [...parked, warn('calls', text, advice)]
}

/** Failing deliveries, and messages for webhooks that the config no longer has. */
function checkWebhooks({ webhooks, unclaimed }: Webhooks): readonly Check[] {
  const found = webhooks.flatMap((webhook) => {
    const { name, waiting, given_up: givenUp, last_failure: failure } = webhook
    const isFailing =
      waiting > 0 &&
      webhook.last_failed_at !== null &&
      (webhook.last_delivered_at === null || webhook.last_failed_at > webhook.last_delivered_at)
    if (!isFailing && givenUp === 0) return []
    const state = [
      ...(givenUp === 0 ? [] : [`lost ${countOf(givenUp, 'message')} in a week`]),
      ...(isFailing ? [`has ${countOf(waiting, 'message')} waiting`] : []),
    ]
    return [
      warn(
        'hooks',
        `The webhook ${name} ${state.join(' and ')}. Last failure: ${failure}`,
        `collet webhooks shows details, collet webhooks test ${name} tries it.`,
      ),
    ]
  })
  if (unclaimed === 0) return found
  const text = `${countOf(unclaimed, 'message')} ${unclaimed === 1 ? 'waits' : 'wait'} for webhooks that this config does not have`
  const advice = 'Add the webhook to the config again, or ignore them: they are dropped after a week.'
  return [...found, warn('hooks', text, advice)]
}

function waitingChecks(count: number, noun: string, awaited: string, advice: string): readonly Check[] {
  if (count === 0) return []
  return [warn('waits', `${countOf(count, noun)} ${count === 1 ? 'waits' : 'wait'} for ${awaited}`, advice)]
}

function countOf(count: number, noun: string): string {
  const number = count >= MAX_COUNTED ? `${MAX_COUNTED} or more` : String(count)
  return `${number} ${noun}${count === 1 ? '' : 's'}`
}
