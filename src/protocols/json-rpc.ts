import { type Challenge, describeIssue, type InputIssue, type MissingRequirements } from '#core/errors'
import type { JsonValue } from '#core/json'

/** What a person has to open, and where to see whether it is done. */
interface WireChallenge {
  /** Of the challenge, not of its provider (OTC-76). */
  readonly id: string
  readonly url: string
  readonly check_url: string
}

/**
 * What a call lacks, the same on every wire that can say it (OTC-75). `secrets` and `approval` are ours: OTC asks for
 * the 400 but defines no member for them (OTC/C-28).
 */
export interface WireMissing {
  readonly authorization?: readonly WireChallenge[]
  readonly secrets?: readonly { readonly id: string }[]
  readonly user_id?: true
  /** An approver has to decide (rule 6). */
  readonly approval?: WireChallenge
}

/** What each challenge is about, by its id: the challenge itself is closed, what it stands in is not (OTC-76). */
export type WireChallenges = Readonly<
  Record<string, { readonly provider: string; readonly scopes: readonly string[] }>
>

export function toChallenges({ authorization = [] }: MissingRequirements): WireChallenges | undefined {
  if (authorization.length === 0) return undefined
  return Object.fromEntries(authorization.map(({ id, provider, scopes }) => [id, { provider, scopes }]))
}

/** By top-level parameter; absent when the input as a whole is wrong (OTC-82). */
export function toParameterErrors(issues: readonly InputIssue[]): Record<string, string> | undefined {
  const texts = new Map<string, string>()
  for (const issue of issues) {
    const { parameter } = issue
    if (parameter === undefined) continue
    const earlier = texts.get(parameter)
    const text = describeIssue(issue)
    texts.set(parameter, earlier === undefined ? text : `${earlier}; ${text}`)
  }
  return texts.size === 0 ? undefined : Object.fromEntries(texts)
}

export function toMissing({ authorization, secrets, userId, approval }: MissingRequirements): WireMissing {
  return {
    ...(authorization === undefined ? {} : { authorization: authorization.map(toWireChallenge) }),
    ...(secrets === undefined ? {} : { secrets: secrets.map(({ id }) => ({ id })) }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(approval === undefined ? {} : { approval: toWireChallenge(approval) }),
  }
}

function toWireChallenge({ id, url, checkUrl }: Challenge): WireChallenge {
  return { id, url, check_url: checkUrl }
}

/** The codes of JSON-RPC 2.0 §5.1. */
export const JSON_RPC_CODES = {
  unreadable: -32_700,
  badRequest: -32_600,
  unknownMethod: -32_601,
  badParams: -32_602,
  internal: -32_603,
} as const

/** Matches an answer to its request and means nothing else: clients use the same id again (rule 4). */
export type JsonRpcId = string | number

export function isJsonRpcId(value: JsonValue | undefined): value is JsonRpcId {
  return typeof value === 'string' || typeof value === 'number'
}
