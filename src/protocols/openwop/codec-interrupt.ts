import type { Decision, DecisionResult } from '#kernel/approval/approvals'
import type { ApprovalView } from '#kernel/approval/decisions'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallLabel, InterruptRequested } from '#kernel/run/events'

/*
 * Encodes approvals as openwop interrupts and decodes resume bodies. The run codec and the run routes use it.
 * Invariant: the interrupt in a run's events has only ids and hashes; the input is shown only to approvers.
 */

/** The key of an interrupt, which is deterministic, so that one attempt never prompts twice (OWP-65). */
export function interruptKey(runId: string, record: string, attempt: number): string {
  return `${runId}:${record}:${attempt - 1}`
}

/** Actions of an approver. There is no action to edit arguments, because an approval is for exactly these arguments (rule 21). */
const ACTIONS = ['accept', 'reject'] as const

type Facts = Pick<
  InterruptRequested,
  'record' | 'attempt' | 'approval' | 'requiredScope' | 'quorum' | 'tier' | 'timeoutMs'
> & { readonly call: Pick<CallLabel, 'callId' | 'toolId' | 'argsHash'> }

/** Encodes ids and an opaque hash of the input (OWP §6.5); the input itself is only for approvers. */
export function encodeInterrupt(facts: Facts, at: { readonly runId: string; readonly atMs: number }) {
  const { record, attempt, approval, call, requiredScope, quorum, tier, timeoutMs } = facts
  const { toolId, callId, argsHash } = call
  return {
    runId: at.runId,
    nodeId: record,
    interruptId: `int_${approval}`,
    kind: 'approval',
    key: interruptKey(at.runId, record, attempt),
    timeoutMs,
    requestedAt: new Date(at.atMs).toISOString(),
    data: {
      gateId: `gate_${approval}`,
      requiredScope,
      quorum,
      artifactId: `call:${callId}`,
      artifactType: 'tool-call',
      title: `Run ${toolId}`,
      artifactData: { toolId, argsHash, safetyTier: tier },
      actions: [...ACTIONS],
    },
  }
}

/** The interrupt for an approver, with the whole input except declared credentials. */
export function encodeInterruptFor(view: ApprovalView): JsonObject {
  const { id, runId, toolId, argsHash, safetyTier, input, hiddenValues, createdAtMs, expiresAtMs } = view
  const timeoutMs = Math.max(0, expiresAtMs - createdAtMs)
  const facts = { ...view, approval: id, call: view, tier: safetyTier, timeoutMs }
  const shown = encodeInterrupt(facts, { runId, atMs: createdAtMs })
  return {
    ...shown,
    status: view.state,
    expiresAt: new Date(expiresAtMs).toISOString(),
    data: { ...shown.data, artifactData: { toolId, argsHash, safetyTier, input, hidden: hiddenValues } },
  }
}

const MAX_REASON_LENGTH = 1_000

/** Resume actions in each of the three vocabularies (OWP/C8). */
const WORDS: Readonly<Record<string, Decision['action']>> = {
  accept: 'grant',
  granted: 'grant',
  approved: 'grant',
  reject: 'reject',
  rejected: 'reject',
  override: 'override',
  overridden: 'override',
}

/** Returns an error text if the body is invalid (OWP/C7). The approver and the time are never taken from the body (OWP-72). */
export function decodeResume(body: JsonValue | undefined): Decision | string {
  const resume = isJsonObject(body) ? body.resumeValue : undefined
  if (!isJsonObject(resume)) return 'The body must be { "resumeValue": { "action": "accept" } }.'
  const { action, decision, reason, acceptHidden } = resume
  if (action !== undefined && decision !== undefined && wordOf(action) !== wordOf(decision)) {
    return '"action" and "decision" contradict each other. Send only one of them.'
  }
  const word = wordOf(action ?? decision)
  if (word === undefined) {
    return '"action" must be "accept" or "reject". Arguments cannot be changed; make a new call instead.'
  }
  if (
    reason !== undefined &&
    (typeof reason !== 'string' || reason.length > MAX_REASON_LENGTH || reason.includes('\0'))
  ) {
    return `"reason" must be a string of at most ${MAX_REASON_LENGTH} characters, without NUL.`
  }
  const why = typeof reason === 'string' && reason.trim() !== '' ? reason : undefined
  if (word === 'override' && why === undefined) return 'An override needs a "reason".'
  return { action: word, reason: why, acceptsHidden: acceptHidden === true }
}

function wordOf(value: JsonValue | undefined): Decision['action'] | undefined {
  return typeof value === 'string' && Object.hasOwn(WORDS, value) ? WORDS[value] : undefined
}

interface InterruptAnswer {
  readonly status: 200 | 401 | 403 | 404 | 409 | 410 | 422
  readonly error: string
  readonly message: string
}

/** Status and error of each decision result (OWP-66 to OWP-68). */
export const INTERRUPT_ANSWERS = {
  decided: { status: 200, error: '', message: '' },
  counted: { status: 200, error: '', message: '' },
  not_found: {
    status: 404,
    error: 'interrupt_not_found',
    message: 'There is no such interrupt in your tenant.',
  },
  unauthenticated: {
    status: 401,
    error: 'unauthenticated',
    message: 'Deciding requires a credential, even on loopback.',
  },
  forbidden: { status: 403, error: 'forbidden', message: 'This credential may not decide that.' },
  own: { status: 403, error: 'forbidden', message: 'The caller of a tool cannot approve its own call.' },
  link_only_shows: {
    status: 403,
    error: 'forbidden',
    message: 'This link only shows the question. Decide with a credential.',
  },
  resolved: {
    status: 409,
    error: 'interrupt_already_resolved',
    message: 'This has already been decided.',
  },
  stale: {
    status: 409,
    error: 'interrupt_stale',
    message: 'The definition of the tool has changed since the approval was requested; make a new call.',
  },
  hidden: {
    status: 409,
    error: 'interrupt_hides_values',
    message: 'Some of its input is hidden. To accept that too, send "acceptHidden": true beside "action".',
  },
  expired: { status: 410, error: 'interrupt_expired', message: 'The time to decide has run out.' },
  cancelled: {
    status: 422,
    error: 'interrupt_cancelled',
    message: 'The call was cancelled, so there is nothing to decide.',
  },
} as const satisfies Record<DecisionResult['kind'], InterruptAnswer>
