import { timingSafeEqual } from 'node:crypto'
import { isJsonObject, type JsonValue } from '#core/json'
import type { ApprovalRecord, ApprovalStore } from '#core/ports/approval-store'

/** What a link lets its holder do: `inspect` shows only. */
export type LinkPower = 'decide' | 'inspect'

/** A link for one approver to one question (rule 23, OWP-67). */
export interface ApprovalLink {
  readonly tenant: string
  readonly id: string
  readonly approver: string
  readonly power: LinkPower
  readonly expiresAtMs: number
}

const PURPOSE = 'link'
const LONGEST_TOKEN = 2_048

/** `base64url(payload).hmac`. It is never valid for longer than its question is open. */
export function mintLink(
  approvals: Pick<ApprovalStore, 'sign'>,
  { tenant, id, expiresAtMs }: Pick<ApprovalRecord, 'tenant' | 'id' | 'expiresAtMs'>,
  { approver, power }: Pick<ApprovalLink, 'approver' | 'power'>,
): string {
  const payload = JSON.stringify({ t: tenant, i: id, a: approver, p: power, e: expiresAtMs })
  const encoded = Buffer.from(payload).toString('base64url')
  return `${encoded}.${approvals.sign(PURPOSE, encoded)}`
}

/** What a token says, when it is one of ours; whether its time is over is for the caller to ask. */
export function readLink(approvals: Pick<ApprovalStore, 'sign'>, token: string): ApprovalLink | undefined {
  if (token.length > LONGEST_TOKEN) return undefined
  const [encoded = '', signature = '', ...rest] = token.split('.')
  if (rest.length > 0 || !isSame(approvals.sign(PURPOSE, encoded), signature)) return undefined
  return parse(Buffer.from(encoded, 'base64url').toString('utf8'))
}

/** Compares all of both, however early they differ. */
export function isSame(expected: string, given: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(given)]
  return left.length === right.length && timingSafeEqual(left, right)
}

function parse(json: string): ApprovalLink | undefined {
  const payload: JsonValue = JSON.parse(json)
  if (!isJsonObject(payload)) return undefined
  const { t, i, a, p, e } = payload
  if (typeof t !== 'string' || typeof i !== 'string' || typeof a !== 'string') return undefined
  if ((p !== 'decide' && p !== 'inspect') || typeof e !== 'number') return undefined
  return { tenant: t, id: i, approver: a, power: p, expiresAtMs: e }
}
