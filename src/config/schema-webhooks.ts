import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { closed, LOOPBACK, WINDOW } from './schema-policies.ts'

/**
 * The parts of the config schema about webhooks: `webhooks`, `approvals.webhooks` and `alerts`. `schema.ts` includes them.
 * Invariant: a message with a link that can decide a call goes only over a private connection, and JSON is always signed.
 */

/** Schemas that other keys of a config also use. */
interface Parts {
  readonly url: z.ZodType<string, string>
  readonly name: z.ZodType<string, string>
}

const MAX_WEBHOOKS = 20
const MIN_SECRET_LENGTH = 16

export function webhooksSchema({ url, name }: Parts) {
  const webhook = closed({
    /** The webhook's name in commands and in the log. Default the host of its address. */
    name: name.optional(),
    ...receiver({ url, name }),
    /** Events to send: `approval.requested`, `approval.*`, `source.added`, `pin.held`, `call.ambiguous`, `budget.80`, `budget.100`, `alert.started`, `alert.ended`; `*` for all events, which is the default. */
    events: z.array(z.string().min(1)).min(1).default(['*']),
    /** The form of the messages: `json` is signed JSON, `slack` and `teams` are for their incoming webhooks. Default `json`. */
    format: z.enum(['json', 'slack', 'teams']).default('json'),
  })
  return z.array(webhook.superRefine(checkReceiver)).max(MAX_WEBHOOKS).default([])
}

/** `approvals.webhooks`: receivers of new requests for approval only. */
export function approvalWebhooksSchema({ url, name }: Parts) {
  const webhook = closed({
    ...receiver({ url, name }),
    /** The form of the messages: `standard` is signed JSON, `slack` and `teams` are for their incoming webhooks. Default `standard`. */
    format: z.enum(['standard', 'slack', 'teams']).default('standard'),
  })
  return z.array(webhook.superRefine(checkReceiver)).max(MAX_WEBHOOKS).default([])
}

const MAX_ALERTS = 100
const PERCENT = z.number().min(0).max(100)
const MAX_ALERT_WINDOW_MS = 24 * 3_600_000

/** Conditions that are reported to `webhooks` when they begin and when they end. */
export function alertsSchema({ name }: Pick<Parts, 'name'>) {
  const shared = {
    /** The alert's name in messages. Default a description of its condition. */
    name: name.optional(),
  }
  const errorRate = closed({
    ...shared,
    when: z.literal('error-rate'),
    /** The share of errors in percent above which the alert starts. */
    above: PERCENT,
    /** Only calls of this tool, in all its versions: `Mail.Send`. Default all calls together. */
    tool: name.optional(),
    /** Only calls of this tenant. Default all tenants together. */
    tenant: name.optional(),
    /** The time over which calls are counted, at most a day. Default `5m`. */
    window: WINDOW.refine((ms) => ms <= MAX_ALERT_WINDOW_MS, { error: 'must be at most "1d".' }).default(
      300_000,
    ),
    /** The alert starts only if there were at least this many calls. Default 20. */
    minCalls: z.int().min(1).max(1_000_000).default(20),
  })
  const budget = closed({
    ...shared,
    when: z.literal('budget'),
    /** The share of a budget in percent at which the alert starts. */
    above: PERCENT,
    /** Only budgets of this tenant and of its principals. Default every budget. */
    tenant: name.optional(),
  })
  const sourceDown = closed({
    ...shared,
    when: z.literal('source-down'),
    /** Only this source. Default every source. */
    source: name.optional(),
    /** How long the source has been down when the alert starts. Default `5m`. */
    after: WINDOW.default(300_000),
  })
  return z
    .array(z.discriminatedUnion('when', [errorRate, budget, sourceDown]))
    .max(MAX_ALERTS)
    .default([])
}

function receiver({ url, name }: Parts) {
  return {
    url,
    /** Secret that signs the messages. Chat services do not need it. */
    secret: z
      .string()
      .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters.` })
      .transform((text) => new Secret(text))
      .optional(),
    /** The approver that the one-time link in a request for approval is for. Absent = no link. */
    approver: name.optional(),
  }
}

type Receiver = z.output<z.ZodObject<ReturnType<typeof receiver>>> & { readonly format: string }

function checkReceiver(receiver: Receiver, context: z.RefinementCtx): void {
  const url = URL.parse(receiver.url)
  const isPrivate = url?.protocol === 'https:' || LOOPBACK.test(url?.hostname ?? '')
  if (receiver.approver !== undefined && !isPrivate) {
    const message =
      'must be https, or http on loopback: anyone who reads a link in its messages can decide as `approver`.'
    context.addIssue({ code: 'custom', path: ['url'], message })
  }
  if (receiver.secret === undefined && receiver.format !== 'slack' && receiver.format !== 'teams') {
    const message = 'is needed to sign messages; only `format: "slack"` and `"teams"` do not need it.'
    context.addIssue({ code: 'custom', path: ['secret'], message })
  }
}
