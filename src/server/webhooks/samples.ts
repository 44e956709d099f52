import { randomUUID } from 'node:crypto'
import type { WebhookTrial } from '#admin-api/server'
import type { Webhook } from '#config/webhooks'
import type { ApprovalRecord } from '#kernel/approval/approval'
import { type AlertFacts, NOTICE_KINDS, type NoticeKind, type NoticeSubject } from '#kernel/journal/notices'
import { approvalContent, bodyOf, noticeContent } from './messages.ts'
import { type MessageContext, postMessage } from './post.ts'

/*
 * Sample messages of every kind of notice, and the test of a receiver with them.
 * Used by `collet webhooks test` and by tests of the message formats. Invariant: there is a sample for each kind.
 */

/** Sends a sample of each kind that a receiver gets, and stops when the receiver refuses one, because it would refuse the others too. */
export async function tryWebhook(
  webhook: Webhook,
  context: MessageContext,
): Promise<readonly WebhookTrial[]> {
  const trials: WebhookTrial[] = []
  for (const kind of NOTICE_KINDS) {
    if (!webhook.kinds.has(kind)) continue
    const message = { id: `msg_test_${randomUUID()}`, body: sampleOf(kind, webhook, context) }
    const { kind: result, text: answer } = await postMessage(webhook, message, context)
    trials.push({ webhook: webhook.name, event: kind, taken: result === 'taken', answer })
    if (result !== 'taken') break
  }
  return trials
}

function sampleOf(
  kind: NoticeKind,
  webhook: Webhook,
  { clock, publicUrl, consoleUrl }: MessageContext,
): string {
  const nowMs = clock.nowMs()
  const subject = SUBJECTS[kind]
  const event = { type: kind, atMs: nowMs, isTest: true }
  if (!('approval' in subject))
    return bodyOf(webhook, { ...event, ...noticeContent(subject, consoleUrl?.()) })
  const approvalContext = { store: { sign: () => '' }, nowMs, publicUrl: publicUrl(), canSignIn: false }
  // A sample has no approver and thus no link, because there is nothing to decide.
  const receiver = { approver: undefined, name: webhook.name }
  const approval = sampleApproval(nowMs)
  return bodyOf(webhook, { ...event, ...approvalContent(approvalContext, receiver, { subject, approval }) })
}

const HOUR_MS = 3_600_000
const TOOL = 'Sample.Tool@1.0.0'
const CALLER = { tenant: 'sample', principal: 'key:sample' }
const BUDGET = { window: { ...CALLER, lengthMs: HOUR_MS, startMs: 0 }, unit: 'calls', limit: 100 } as const

const ALERT: AlertFacts = {
  name: 'sample',
  condition: {
    ...{ kind: 'error-rate', tool: TOOL, windowMs: HOUR_MS, abovePercent: 5 },
    ...{ calls: 100, errors: 10 },
  },
}

const SUBJECTS: Readonly<Record<NoticeKind, NoticeSubject>> = {
  'approval.requested': { kind: 'approval.requested', approval: 'sample' },
  'approval.decided': { kind: 'approval.decided', approval: 'sample', as: 'granted', by: 'key:approver' },
  'approval.expired': { kind: 'approval.expired', approval: 'sample' },
  'source.added': {
    kind: 'source.added',
    source: 'Sample',
    sourceType: 'mcp',
    target: 'npx sample',
    replaced: false,
    changes: {},
    by: 'key:sample',
  },
  'pin.held': {
    kind: 'pin.held',
    source: 'Sample',
    count: 1,
    tools: [{ tool: 'Sample.Tool', class: 'breaking', hash: 'sample' }],
  },
  'call.ambiguous': {
    kind: 'call.ambiguous',
    calls: [{ ...CALLER, record: 'sample', tool: TOOL, attempt: 1 }],
  },
  'budget.80': { ...BUDGET, kind: 'budget.80', used: 80 },
  'budget.100': { ...BUDGET, kind: 'budget.100', used: 100 },
  'alert.started': { kind: 'alert.started', alert: ALERT },
  'alert.ended': { kind: 'alert.ended', alert: ALERT, startedAtMs: 0, why: 'recovered' },
}

function sampleApproval(nowMs: number): ApprovalRecord {
  const inputJson = JSON.stringify({ note: 'This is a test.' })
  return {
    ...CALLER,
    id: 'sample',
    record: 'sample',
    attempt: 1,
    run: 'sample',
    binding: '',
    tool: TOOL,
    toolId: 'openwop:Sample.Tool',
    tier: 'write',
    definitionHash: 'sample',
    subject: {
      callId: 'sample',
      runId: 'sample',
      argsHash: '',
      userId: undefined,
      isUserProven: false,
      summaryJson: inputJson,
      inputJson,
      hidden: 0,
    },
    quorum: 1,
    requiredScope: 'approvals:respond',
    selfApproval: false,
    overrideBypassesQuorum: false,
    state: 'pending',
    createdAtMs: nowMs,
    expiresAtMs: nowMs + HOUR_MS,
    decidedAtMs: undefined,
    decisions: [],
  }
}
