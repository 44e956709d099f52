import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { closed, LOOPBACK } from './schema-policies.ts'

/*
 * The config section of webhooks.
 * `schema.ts` puts it into the schema of a config.
 * Invariant: the comments are the hover texts of editors, so they are written for users.
 */

/** How a receiver wants its messages: signed JSON as Standard Webhooks has it, or as a chat shows them. */
const WEBHOOK_FORMATS = ['json', 'slack', 'teams'] as const

/** Words that other keys of a config use, too. */
interface Words {
  readonly url: z.ZodType<string, string>
  readonly name: z.ZodType<string, string>
}

const MAX_WEBHOOKS = 20
const MIN_SECRET_LENGTH = 16

/** The `webhooks` key. */
export function webhooksSchema({ url, name }: Words) {
  const webhook = closed({
    /** What commands and the log call it. Default the host of its address. */
    name: name.optional(),
    ...receiver({ url, name }),
    /** Events that are sent: `approval.requested`, `approval.*`, `source.added`, `pin.held`, `call.ambiguous`, `budget.80`, `budget.100`; `*` for everything, which is the default. */
    events: z.array(z.string().min(1)).min(1).default(['*']),
    /** The shape of the messages: `json` is signed JSON, `slack` and `teams` are for their incoming webhooks. Default `json`. */
    format: z.enum(WEBHOOK_FORMATS).default('json'),
  })
  return z
    .array(
      webhook
        .refine(isKeptPrivate, NOT_PRIVATE)
        .refine(({ format, secret }) => format !== 'json' || secret !== undefined, UNSIGNED),
    )
    .max(MAX_WEBHOOKS)
    .default([])
}

/** `approvals.webhooks`, which was there first: receivers of new questions alone. */
export function approvalWebhooksSchema({ url, name }: Words) {
  const webhook = closed({
    ...receiver({ url, name }),
    /** The shape of the messages: `standard` is signed JSON, `slack` and `teams` are for their incoming webhooks. Default `standard`. */
    format: z.enum(['standard', 'slack', 'teams']).default('standard'),
  })
  return z
    .array(
      webhook
        .refine(isKeptPrivate, NOT_PRIVATE)
        .refine(({ format, secret }) => format !== 'standard' || secret !== undefined, UNSIGNED),
    )
    .max(MAX_WEBHOOKS)
    .default([])
}

function receiver({ url, name }: Words) {
  return {
    url,
    /** Signs the messages. A chat knows them by its address, and needs none. */
    secret: z
      .string()
      .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters.` })
      .transform((text) => new Secret(text))
      .optional(),
    /** Whom the one-time link in a question is for. Absent = no link. */
    approver: name.optional(),
  }
}

/** False for an address over which others could read a confidential message. */
function isKeptPrivate({
  url: text,
  approver,
}: {
  readonly url: string
  readonly approver?: string | undefined
}): boolean {
  const url = URL.parse(text)
  return approver === undefined || url?.protocol === 'https:' || LOOPBACK.test(url?.hostname ?? '')
}

const NOT_PRIVATE = {
  path: ['url'],
  error: 'must be https, or http on loopback: its messages carry links that decide for `approver`.',
}

const UNSIGNED = {
  path: ['secret'],
  error: 'is needed to sign messages; only `format: "slack"` and `"teams"` go without.',
}
