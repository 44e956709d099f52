import { describeIssue, type InputIssue, type MissingRequirements } from '#kernel/base/errors'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { CallError, Outcome } from '#kernel/call/call'

/** A caller's view of one call, in the vocabulary of the core. Members that a lane does not have are absent. */
export interface Observation {
  /** Whether the tool was visible to this caller. */
  readonly decision: 'hidden' | 'denied' | 'granted'
  /** `ok`, or the error code. */
  readonly code: string
  /** The class on the wire: HTTP status, and OpenTool's number after a slash. */
  readonly sort?: string
  /** `as asked`, or `made` for a call without a key. */
  readonly callId?: string
  readonly runId?: string
  readonly value?: JsonValue
  readonly error?: JsonObject
  /** Refused by the protocol before the gateway saw it. Only in expectations. */
  readonly isUnread?: true
}

/** The answer, and the ids under which the store knows it. */
export interface Answer {
  readonly observation: Observation
  readonly callId: string | undefined
  readonly runId: string | undefined
  /** Whether the answer is a replay; only the core reports it. */
  readonly replayed?: boolean
}

export function decisionOf(code: string): Observation['decision'] {
  if (code === 'tool_not_found') return 'hidden'
  return code === 'not_authorized' ? 'denied' : 'granted'
}

/** Everything in the outcome of a call except its duration. */
export function observe(outcome: Outcome): Observation {
  const code = outcome.ok ? 'ok' : outcome.error.code
  return {
    decision: decisionOf(code),
    code,
    ...(outcome.ok ? { value: JSON.parse(outcome.valueJson) } : { error: observeError(outcome.error) }),
  }
}

function observeError({ code: _code, shown: _onMcp, details = {}, ...members }: CallError): JsonObject {
  const { issues, missing } = details
  const parameterErrors = issues === undefined ? undefined : byParameter(issues)
  return {
    ...members,
    ...(parameterErrors === undefined ? {} : { parameterErrors }),
    ...(issues === undefined ? {} : { issues: issues.map(withParameter) }),
    ...(missing === undefined ? {} : { missing: observeMissing(missing) }),
    ...(missing?.authorization === undefined ? {} : { challenges: subjectsOf(missing.authorization) }),
  }
}

/** Each with its parameter, as messages list them. */
function withParameter(issue: InputIssue): string {
  return issue.parameter === undefined ? describeIssue(issue) : `${issue.parameter}: ${describeIssue(issue)}`
}

/** OTC-82: absent when the input as a whole is wrong. */
function byParameter(issues: readonly InputIssue[]): JsonObject | undefined {
  const named = Map.groupBy(issues, ({ parameter }) => parameter)
  named.delete(undefined)
  if (named.size === 0) return undefined
  return Object.fromEntries([...named].map(([name, all]) => [`${name}`, all.map(describeIssue).join('; ')]))
}

/** The subject of each challenge, by its id (OTC-76). */
function subjectsOf(challenges: NonNullable<MissingRequirements['authorization']>): JsonObject {
  return Object.fromEntries(
    challenges.map(({ id, provider, scopes }) => [id, { provider, scopes: [...scopes] }]),
  )
}

function observeMissing({ authorization, secrets, userId, approval }: MissingRequirements): JsonObject {
  return {
    ...(authorization === undefined
      ? {}
      : { authorization: authorization.map(({ id, url, checkUrl }) => ({ id, url, check_url: checkUrl })) }),
    ...(secrets === undefined ? {} : { secrets: secrets.map(({ id }) => ({ id })) }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(approval === undefined
      ? {}
      : { approval: { id: approval.id, url: approval.url, check_url: approval.checkUrl } }),
  }
}
