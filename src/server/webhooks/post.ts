import { createHmac } from 'node:crypto'
import type { Webhook } from '#config/webhooks'
import type { Clock } from '#kernel/base/clock'

/*
 * Sends one signed webhook message. Used by the outbox and by test messages.
 * Invariant: no redirect is followed, and no text from a receiver reaches a log or an operator.
 */

/** Header with the id of a message, which is the same in every attempt. */
const NOTICE_ID = 'collet-notice-id'

const ANSWER_LIMIT_MS = 10_000
/** Maximum delay that a receiver can request. */
const MAX_REQUESTED_MS = 3_600_000

/** The result of a delivery, with a text for operators that contains nothing from the receiver. */
export type Answer =
  | { readonly kind: 'taken'; readonly text: string }
  | {
      readonly kind: 'refused'
      readonly text: string
      /** Whether the receiver is permanently gone. */
      readonly isGone: boolean
      /** Delay that the receiver requested. */
      readonly waitMs: number
    }

/** The services that every sender of messages uses. */
export interface MessageContext {
  readonly fetch: typeof fetch
  readonly clock: Clock
  publicUrl(): string
  /** Address of the console, if there is one. */
  consoleUrl?(): string | undefined
}

/** Sends one message and waits for the status. No redirect is followed, because the signature is for this address alone. */
export async function postMessage(
  webhook: Pick<Webhook, 'url' | 'secret'>,
  message: { readonly id: string; readonly body: string },
  { fetch: send, clock, signal }: Pick<MessageContext, 'fetch' | 'clock'> & { readonly signal?: AbortSignal },
): Promise<Answer> {
  const { id, body } = message
  const limit = AbortSignal.timeout(ANSWER_LIMIT_MS)
  try {
    const response = await send(webhook.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        [NOTICE_ID]: id,
        ...signatureOf(webhook, message, clock.nowMs()),
      },
      body,
      redirect: 'error',
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    })
    await response.body?.cancel()
    const text = `answered ${response.status}`
    if (response.ok) return { kind: 'taken', text }
    const waitMs = Math.min(Number(response.headers.get('retry-after') ?? 0) * 1_000 || 0, MAX_REQUESTED_MS)
    return { kind: 'refused', text, isGone: response.status === 410, waitMs }
  } catch (error) {
    const text = limit.aborted
      ? `did not answer within ${ANSWER_LIMIT_MS / 1_000} seconds`
      : `could not be reached (${codeOf(error)})`
    return { kind: 'refused', text, isGone: false, waitMs: 0 }
  }
}

/** Signs as Standard Webhooks requires: HMAC-SHA256 over id, time and body. */
function signatureOf(
  { secret }: Pick<Webhook, 'secret'>,
  { id, body }: { readonly id: string; readonly body: string },
  nowMs: number,
): Record<string, string> {
  if (secret === undefined) return {}
  const timestamp = String(Math.floor(nowMs / 1_000))
  const signature = createHmac('sha256', signingKey(secret.reveal()))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

/** A secret that begins with `whsec_` is base64; any other secret is used as text. */
function signingKey(secret: string): Buffer {
  return secret.startsWith('whsec_')
    ? Buffer.from(secret.slice('whsec_'.length), 'base64')
    : Buffer.from(secret)
}

const CODE = /^[A-Za-z0-9_]{1,60}$/

/** Returns only the code of an error, because its text may contain the address, and the address of a chat's webhook is a secret. */
function codeOf(error: unknown): string {
  let found = 'unknown'
  for (let each = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth += 1) {
    if ('code' in each && typeof each.code === 'string' && CODE.test(each.code)) found = each.code
  }
  return found
}
