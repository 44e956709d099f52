import { StoreError } from '#core/errors'
import type {
  ApprovalRecord,
  ApprovalState,
  ApprovalSubject,
  ApproverDecision,
  DecisionAction,
} from '#core/ports/approval-store'
import {
  boundText,
  integer,
  optionalInteger,
  optionalText,
  ownText,
  type SealedText,
  TIERS,
  text,
  word,
} from '#store/rows'
import type { Row, Steps } from '#store/steps'

const APPROVAL_STATES = [
  'pending',
  'granted',
  'used',
  'rejected',
  'expired',
  'cancelled',
] as const satisfies readonly ApprovalState[]
const ACTIONS = ['grant', 'reject', 'override'] as const satisfies readonly DecisionAction[]

/** What stands in for a subject that is not needed, or whose text is gone with its journal group. */
const NO_SUBJECT: ApprovalSubject = {
  callId: '',
  runId: '',
  argsHash: '',
  userId: undefined,
  isUserProven: false,
  summaryJson: '{}',
  inputJson: '{}',
  hidden: 0,
  isPartial: true,
}

/** Without its subject, which is sealed. */
export function approvalFromRow(row: Row, decisions: readonly Row[], subject = NO_SUBJECT): ApprovalRecord {
  return {
    tenant: text(row, 'tenant'),
    id: text(row, 'id'),
    record: text(row, 'record'),
    attempt: integer(row, 'attempt'),
    principal: text(row, 'principal'),
    tool: text(row, 'tool'),
    toolId: text(row, 'tool_id'),
    tier: word(row, 'tier', TIERS),
    definitionHash: text(row, 'definition'),
    run: text(row, 'run'),
    subject,
    binding: text(row, 'binding'),
    quorum: integer(row, 'quorum'),
    requiredScope: text(row, 'required_scope'),
    selfApproval: integer(row, 'self_approval') === 1,
    overrideBypassesQuorum: integer(row, 'bypass') === 1,
    state: word(row, 'state', APPROVAL_STATES),
    createdAtMs: integer(row, 'created_at'),
    expiresAtMs: integer(row, 'expires_at'),
    decidedAtMs: optionalInteger(row, 'decided_at'),
    decisions: decisions.map(decisionFromRow),
  }
}

function decisionFromRow(row: Row): ApproverDecision {
  return {
    by: text(row, 'principal'),
    action: word(row, 'action', ACTIONS),
    reason: optionalText(row, 'reason'),
    atMs: integer(row, 'at'),
  }
}

/** What is sealed of a subject. */
type Kept = readonly [string, string, string, string | null, string, string, number, boolean]

/** A subject as it is sealed: it holds caller text (rule 15). */
export function subjectToText(record: string, subject: ApprovalSubject): string {
  const { callId, runId, argsHash, userId, summaryJson, inputJson, hidden, isUserProven } = subject
  return boundText(
    record,
    JSON.stringify([callId, runId, argsHash, userId ?? null, summaryJson, inputJson, hidden, isUserProven]),
  )
}

export function* subjectOf(row: Row, sealed: SealedText): Steps<ApprovalSubject> {
  const slice = {
    group: integer(row, 'subject_group'),
    at: integer(row, 'subject_at'),
    length: integer(row, 'subject_length'),
  }
  try {
    const bound = yield* sealed('callers', slice)
    const parts: Kept = JSON.parse(ownText(text(row, 'record'), bound))
    const [callId, runId, argsHash, userId, summaryJson, inputJson, hidden, isUserProven] = parts
    return {
      callId,
      runId,
      argsHash,
      userId: userId ?? undefined,
      summaryJson,
      inputJson,
      hidden,
      isUserProven,
    }
  } catch (error) {
    // A decided one may outlive the group its text was in; an open one keeps that group alive.
    if (error instanceof StoreError && error.code === 'unreadable' && row.decided_at !== null)
      return NO_SUBJECT
    throw error
  }
}
