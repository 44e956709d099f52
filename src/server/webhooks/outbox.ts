import type { Webhook } from '#config/webhooks'
import type { Logger } from '#kernel/base/logger'
import type { Store } from '#store/collet-store'
import type { DueNotice, NoticeResult } from '#store/notices'
import { approvalContent, bodyOf, noticeContent } from './messages.ts'
import { type Answer, type MessageContext, postMessage } from './post.ts'

/*
 * Delivers notices from the store to webhooks. The composition root starts one outbox per process.
 * Invariant: a notice is sent until its receiver accepts it, is gone, or a day has passed, and calls never wait for it.
 */

const POLL_MS = 1_000
/** Lease of a message, longer than one attempt can take. */
const LEASE_MS = 30_000
/** Maximum number of parallel messages to one receiver. */
const MAX_AT_ONCE = 10
const FIRST_PAUSE_MS = 2_000
const MAX_PAUSE_MS = 5 * 60_000
/** Messages older than this are dropped. */
const GIVE_UP_AFTER_MS = 24 * 3_600_000

interface OutboxOptions extends MessageContext {
  readonly store: Pick<Store, 'notices' | 'approvals' | 'sign'>
  /** Read for each message, because receivers may change. */
  webhooks(): readonly Webhook[]
  readonly log: Logger
  readonly canSignIn: boolean
}

/** Undelivered notices stay in the store, where any replica finds them. A receiver that hangs delays no other receiver. */
export function startOutbox(options: OutboxOptions) {
  const { store, webhooks, clock, log } = options
  const stopped = new AbortController()
  const rounds = new Map<string, Promise<number>>()

  /** Delivers due messages once; returns the number of attempts. */
  const deliver = async (): Promise<number> => {
    const due = await store.notices.due(clock.nowMs())
    // Messages for an unknown receiver are left to a replica that has already read its config.
    const started = webhooks().flatMap((webhook) => {
      const { target } = webhook
      if (!due.includes(target) || rounds.has(target) || stopped.signal.aborted) return []
      const round = deliverTo(options, webhook, stopped.signal).finally(() => rounds.delete(target))
      rounds.set(target, round)
      return [round]
    })
    return (await Promise.all(started)).reduce((sum, tried) => sum + tried, 0)
  }

  const timer = setInterval(() => {
    if (webhooks().length > 0)
      deliver().catch((err: unknown) => log.error({ err }, 'due webhook messages could not be read'))
  }, POLL_MS).unref()

  return {
    deliver,
    async close(): Promise<void> {
      clearInterval(timer)
      stopped.abort()
      await Promise.allSettled(rounds.values())
    },
  }
}

/** Delivers the due messages of one receiver, a few at a time, until no message is left or all of a batch fail. */
async function deliverTo(options: OutboxOptions, webhook: Webhook, stopped: AbortSignal): Promise<number> {
  const { store, clock } = options
  for (let tried = 0; ; ) {
    const due = await store.notices.take(webhook.target, clock.nowMs(), LEASE_MS, MAX_AT_ONCE)
    const results = await Promise.all(due.map((notice) => deliverOne(options, webhook, notice, stopped)))
    tried += due.length
    if (due.length < MAX_AT_ONCE || results.every((isDone) => !isDone) || stopped.aborted) return tried
  }
}

/** Returns true if the message needs no further attempt. */
async function deliverOne(
  options: OutboxOptions,
  webhook: Webhook,
  notice: DueNotice,
  stopped: AbortSignal,
): Promise<boolean> {
  const { store, clock, log } = options
  const answer = await tryOne(options, webhook, notice, stopped).catch(() => UNREADABLE)
  // It is unknown whether the message was delivered, so another process tries again after the lease.
  if (stopped.aborted && answer?.kind === 'refused') return false
  const result = resultOf(answer, notice, clock.nowMs())
  await store.notices.settle(notice, result)
  if (result.kind === 'failed' || result.kind === 'given_up') {
    const { kind } = notice.subject
    const fields = { webhook: webhook.name, kind, tries: notice.tries, failure: result.failure }
    if (result.kind === 'failed') log.warn(fields, 'a webhook did not accept its message')
    else log.error(fields, 'a message for a webhook was given up: collet webhooks shows more')
  }
  return result.kind !== 'failed'
}

const UNREADABLE_TEXT = 'got no request, because the notice in the store cannot be read'
const UNREADABLE: Answer = { kind: 'refused', text: UNREADABLE_TEXT, isGone: false, waitMs: 0 }

/** Returns `undefined` if the notice has become obsolete. */
async function tryOne(
  options: OutboxOptions,
  webhook: Webhook,
  notice: DueNotice,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const body = await messageFor(options, webhook, notice)
  if (body === undefined) return undefined
  return await postMessage(webhook, { id: notice.id, body }, { ...options, signal })
}

async function messageFor(
  { store, clock, publicUrl, consoleUrl, canSignIn }: OutboxOptions,
  webhook: Webhook,
  { subject, createdAtMs }: DueNotice,
): Promise<string | undefined> {
  const event = { type: subject.kind, atMs: createdAtMs }
  if (!('approval' in subject))
    return bodyOf(webhook, { ...event, ...noticeContent(subject, consoleUrl?.()) })
  const nowMs = clock.nowMs()
  const approval = await store.approvals.findById(subject.approval)
  if (approval === undefined) return undefined
  const isOpen = approval.state === 'pending' && approval.expiresAtMs > nowMs
  if (subject.kind === 'approval.requested' && !isOpen) return undefined
  const context = { store, nowMs, publicUrl: publicUrl(), canSignIn }
  return bodyOf(webhook, { ...event, ...approvalContent(context, webhook, { subject, approval }) })
}

function resultOf(answer: Answer | undefined, notice: DueNotice, atMs: number): NoticeResult {
  if (answer === undefined) return { kind: 'moot', atMs }
  if (answer.kind === 'taken') return { kind: 'delivered', atMs }
  const { text: failure, isGone, waitMs } = answer
  if (isGone || atMs - notice.createdAtMs >= GIVE_UP_AFTER_MS) return { kind: 'given_up', failure, atMs }
  return { kind: 'failed', failure, atMs, nextAtMs: atMs + Math.max(pauseMs(notice.tries), waitMs) }
}

function pauseMs(tries: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), MAX_PAUSE_MS)
}
