import { createHmac } from 'node:crypto'
import { type ApprovalRules, type ApprovalWebhook, isMoreThanALink, namedBy } from '#core/approvals/approvals'
import { approvalView, mintLink } from '#core/approvals/decisions'
import type { ApprovalStore, DueNotice } from '#core/ports/approval-store'
import type { Clock, Logger } from '#core/runtime'
import { renderApproval, renderInList } from '#server/admin/approvals'
import { chatMessage } from './chat-messages.ts'

const LOOK_EVERY_MS = 1_000
const ANSWER_LIMIT_MS = 10_000
/** Longer than one try can take: another process leaves it alone that long. */
const LEASE_MS = 30_000
const MOST_AT_ONCE = 20
const FIRST_PAUSE_MS = 2_000
/** A larger input is not in the message: `input_bytes` says so, and the page has it. */
const MOST_INPUT_BYTES = 64 * 1024
const LONGEST_PAUSE_MS = 5 * 60_000

interface ApprovalWebhooksOptions {
  readonly approvals: ApprovalStore
  /** Asked for each message: who is told may change. */
  rules(): Pick<ApprovalRules, 'webhooks'>
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: Logger
  /** Whether approvers can sign in: without, some links could not decide and are left out (rule 23). */
  readonly canSignIn: boolean
  publicUrl(): string
}

interface ApprovalWebhooks {
  /** One round over what is due; gives how many messages were tried. */
  deliver(): Promise<number>
  stop(): Promise<void>
}

/**
 * Delivers the messages that the store holds, at least once, as long as the question is open. Calls never wait for it,
 * and a restart loses nothing: what is not delivered stays in the store.
 */
export function startApprovalWebhooks(options: ApprovalWebhooksOptions): ApprovalWebhooks {
  const { approvals, rules, clock, log } = options
  const stopped = new AbortController()
  let round: Promise<number> | undefined

  const deliverAll = async (): Promise<number> => {
    const due = await approvals.takeNotices(clock.nowMs(), LEASE_MS, MOST_AT_ONCE)
    await Promise.all(due.map((notice) => deliverOne(notice)))
    return due.length
  }

  const deliverOne = async (notice: DueNotice): Promise<void> => {
    const webhook = rules().webhooks.find(({ target }) => target === notice.target)
    const isSettled = notice.approval.state !== 'pending' || notice.approval.expiresAtMs <= clock.nowMs()
    // A receiver that is not known here may be new, and known to a replica that has read its config already.
    const isDone =
      isSettled || (webhook !== undefined && (await send(options, webhook, notice, stopped.signal)))
    const nextAtMs = isDone ? undefined : clock.nowMs() + pauseMs(notice.tries)
    if (stopped.signal.aborted && !isDone) return
    await approvals.settleNotice(notice.id, nextAtMs)
  }

  const deliver = (): Promise<number> => {
    round ??= deliverAll().finally(() => {
      round = undefined
    })
    return round
  }

  const timer = setInterval(() => {
    if (rules().webhooks.length > 0)
      deliver().catch((err: unknown) => log.error({ err }, 'webhooks could not be looked after'))
  }, LOOK_EVERY_MS).unref()

  return {
    deliver,
    async stop() {
      clearInterval(timer)
      stopped.abort()
      await round?.catch(() => undefined)
    },
  }
}

function pauseMs(tries: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS)
}

/** Whether it was taken. What a receiver answers is nobody's business but its status. */
async function send(
  options: ApprovalWebhooksOptions,
  webhook: ApprovalWebhook,
  notice: DueNotice,
  signal: AbortSignal,
): Promise<boolean> {
  const { log, clock } = options
  const body = messageOf(options, webhook, notice)
  try {
    const response = await options.fetch(webhook.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...signatureOf(webhook, notice.id, body, clock.nowMs()),
      },
      body,
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_LIMIT_MS)]),
    })
    await response.body?.cancel()
    if (response.ok) return true
    log.warn({ status: response.status, tries: notice.tries }, 'a webhook did not take its message')
  } catch (error) {
    const name = error instanceof Error ? error.name : 'unknown'
    log.warn({ name, tries: notice.tries }, 'a webhook could not be reached')
  }
  return false
}

/** Ids, the summary, the whole where it is not too large, and a link if it has an approver. */
function messageOf(
  { approvals, clock, publicUrl, canSignIn }: ApprovalWebhooksOptions,
  { approver, format }: ApprovalWebhook,
  { approval }: DueNotice,
): string {
  const url = publicUrl()
  const link =
    approver === undefined ||
    (isMoreThanALink(approval) && !canSignIn) ||
    // Nobody gets a link to its own call.
    namedBy(approver, approval) === approval.principal
      ? {}
      : { approver, link: `${url}/approve/${mintLink(approvals, approval, { approver, power: 'decide' })}` }
  const view = approvalView(approval, { nowMs: clock.nowMs(), isStale: false, served: undefined })
  const render = view.inputBytes <= MOST_INPUT_BYTES ? renderApproval : renderInList
  const page = `${url}/approvals/${approval.id}`
  if (format !== 'standard') {
    return chatMessage(format, {
      title: `${view.tool} waits for approval`,
      facts: [
        ['Caller', view.principal],
        ['Call', view.callId],
        ['Expires', new Date(view.expiresAtMs).toISOString()],
      ],
      detail: JSON.stringify(view.summary, undefined, 2),
      action: { label: 'link' in link ? 'Decide' : 'Look at it', url: 'link' in link ? link.link : page },
    })
  }
  return JSON.stringify({
    type: 'approval.requested',
    timestamp: new Date(approval.createdAtMs).toISOString(),
    data: { ...render(view), url: page, ...link },
  })
}

/** As Standard Webhooks has it: HMAC-SHA256 over id, time and body. */
function signatureOf(
  { secret }: Pick<ApprovalWebhook, 'secret'>,
  id: string,
  body: string,
  nowMs: number,
): Record<string, string> {
  if (secret === undefined) return {}
  const timestamp = String(Math.floor(nowMs / 1_000))
  const signature = createHmac('sha256', signingKey(secret.reveal()))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

/** `whsec_` secrets are base64, any other is its own text. */
function signingKey(secret: string): Buffer {
  return secret.startsWith('whsec_')
    ? Buffer.from(secret.slice('whsec_'.length), 'base64')
    : Buffer.from(secret)
}
