import { randomBytes } from 'node:crypto'
import { isSame } from '#core/approvals/decisions'
import type { ApprovalStore } from '#core/ports/approval-store'

const NONCE_BYTES = 18
const SIGNED_IN_MS = 10 * 60_000

type Sign = ApprovalStore['sign']

/** Whoever may press a button on an approver's page: anybody with the page, or who signed in for it. */
export interface PassHolder {
  readonly signedIn: { readonly principal: string } | undefined
}

/** A cookie of the browser and a text of the form that belong together; another site can make neither. */
export interface ApproverPass {
  readonly cookie: string
  readonly csrf: string
}

export function makePass(sign: Sign, token: string, { signedIn }: PassHolder, nowMs: number): ApproverPass {
  const nonce = randomBytes(NONCE_BYTES).toString('base64url')
  const rest =
    signedIn === undefined
      ? []
      : [String(nowMs + SIGNED_IN_MS), Buffer.from(signedIn.principal).toString('base64url')]
  const cookie = [nonce, ...rest].join('.')
  return { cookie, csrf: sign('csrf', JSON.stringify([token, cookie])) }
}

/** Who pressed; `undefined` when the two do not fit each other and this link, or the sign-in was too long ago. */
export function readPass(
  sign: Sign,
  token: string,
  { cookie, csrf }: ApproverPass,
  nowMs: number,
): PassHolder | undefined {
  if (!isSame(sign('csrf', JSON.stringify([token, cookie])), csrf)) return undefined
  const [, until, principal] = cookie.split('.')
  if (until === undefined || principal === undefined) return { signedIn: undefined }
  if (Number(until) <= nowMs) return undefined
  return { signedIn: { principal: Buffer.from(principal, 'base64url').toString() } }
}
