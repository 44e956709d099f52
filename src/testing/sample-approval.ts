import type { NewApproval, NewDecision, Parking } from '#core/ports/approval-store'

/** A question as the pipeline would ask it, for store tests. */
export function sampleApproval(changes: Partial<NewApproval> = {}): NewApproval {
  return {
    tenant: 'default',
    id: 'approval-1',
    subject: {
      callId: 'call-1',
      runId: 'run_record-1',
      argsHash: '0'.repeat(64),
      userId: undefined,
      isUserProven: false,
      summaryJson: '{"doorbell_id":"doorbell42"}',
      inputJson: '{"doorbell_id":"doorbell42"}',
      hidden: 0,
    },
    binding: 'binding-1',
    quorum: 1,
    requiredScope: 'approvals:respond',
    selfApproval: false,
    overrideBypassesQuorum: false,
    expiresAtMs: 10_000,
    notices: [],
    ...changes,
  }
}

export function sampleParking(changes: Partial<NewApproval> = {}, parking: Partial<Parking> = {}): Parking {
  return { approval: sampleApproval(changes), mostParked: 100, keyed: true, ...parking }
}

export function yesOf(by: string, changes: Partial<NewDecision> = {}): NewDecision {
  return {
    ...{ tenant: 'default', id: 'approval-1', by, action: 'grant', reason: undefined },
    ...{ atMs: 2_000, opaque: `prn_${by}` },
    ...changes,
  }
}
