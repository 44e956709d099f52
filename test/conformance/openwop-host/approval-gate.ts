import type { ApprovalRecord } from '#kernel/approval/approval'
import { type Decision, OVERRIDE_SCOPE, RESPOND_SCOPE } from '#kernel/approval/approvals'
import { fault } from '#kernel/base/errors'
import { isJsonObject } from '#kernel/base/json'
import { NO_SECRETS } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { encodeRunEvents } from '#protocols/openwop/codec-run'
import { jsonReply } from '#protocols/openwop/errors'
import { sampleInput } from './sample-input.ts'

export const APPROVAL_GATE_PATH = '/v1/host/sample/governance/approval-gate'

interface Scenario {
  readonly action: Decision['action']
  readonly isAuthorized: boolean
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  grant: { action: 'grant', isAuthorized: true },
  'authorized-grant': { action: 'grant', isAuthorized: true },
  'unauthorized-grant': { action: 'grant', isAuthorized: false },
  reject: { action: 'reject', isAuthorized: true },
  override: { action: 'override', isAuthorized: true },
}

/** Creates one approval gate and decides it through the production code (OWP-105). */
export async function driveApprovalGate(request: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  const asked = isJsonObject(request.body) ? request.body : {}
  const name = typeof asked.scenario === 'string' ? asked.scenario : ''
  const scenario = Object.hasOwn(SCENARIOS, name) ? SCENARIOS[name] : undefined
  if (scenario === undefined) {
    throw fault('request_invalid', `"scenario" must be one of ${Object.keys(SCENARIOS).join(', ')}.`)
  }
  const approval = await park(request, gateway)
  const { action, isAuthorized } = scenario
  const approver = {
    id: `conformance:${typeof asked.principal === 'string' ? asked.principal : 'approver'}`,
    tenant: request.principal.tenant,
    scopes: isAuthorized ? [RESPOND_SCOPE, OVERRIDE_SCOPE, approval.requiredScope] : [],
  }
  const reason = typeof asked.reason === 'string' ? asked.reason : undefined
  const why = action === 'override' ? (reason ?? 'no reason was given') : reason
  await gateway.approvals.decide(approver, approval, { action, reason: why })
  const after = await gateway.approvals.find(approver, approval.id)
  const event = await latestDecision(request, gateway, approval.subject.runId)
  return jsonReply(200, { released: after?.state === 'granted', ...(event === undefined ? {} : { event }) })
}

async function park({ principal, traceId }: HttpRequest, gateway: Gateway): Promise<ApprovalRecord> {
  const tool = gateway
    .catalogFor(principal)
    .latest()
    .find(({ policy }) => policy.approval !== 'never')
  if (tool === undefined) throw fault('tool_not_found', 'No tool here needs approval.')
  const { outcome } = await gateway.call(principal, {
    tool: { base: tool.parts.base, version: tool.parts.version },
    input: sampleInput(tool.inputSchema),
    key: crypto.randomUUID(),
    traceId,
    userId: undefined,
    tokens: NO_SECRETS,
    secrets: NO_SECRETS,
  })
  const id = outcome.ok ? undefined : outcome.error.details?.missing?.approval?.id
  const approval = id === undefined ? undefined : await gateway.approvals.findById(id)
  if (approval !== undefined) return approval
  throw fault('request_invalid', `Approval of ${tool.id} could not be requested.`)
}

/** The newest `approval.*` event of the run; none when nothing was decided. */
async function latestDecision({ principal }: HttpRequest, gateway: Gateway, runId: string) {
  const page = await gateway.readRun(principal, { runId, after: -1, waitMs: 0 })
  const events = page === undefined ? [] : encodeRunEvents(page, runId)
  return events.findLast(({ type }) => type.startsWith('approval.'))
}
