import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { closed, LOOPBACK } from './schema-policies.ts'

/**
 * The parts of the config schema about webhooks: `webhooks` and `approvals.webhooks`. `schema.ts` includes them.
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
    /** Events to send: `approval.requested`, `approval.*`, `source.added`, `pin.held`, `call.ambiguous`, `budget.80`, `budget.100`; `*` for all events, which is the default. */
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
