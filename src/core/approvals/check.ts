import { randomUUID } from 'node:crypto'
import type { CallRequest } from '#core/call'
import type { CallServices } from '#core/calls/gateway'
import { argsHash, keyConflict } from '#core/calls/identity'
import { redactText } from '#core/calls/redact'
import { type CheckedCall, correctionOf } from '#core/calls/run'
import { recordedScope, runIdOf, toNewCall } from '#core/calls/scope'
import { fault } from '#core/errors'
import type { ApprovalRecord, NewApproval, Parking, ParkResult } from '#core/ports/approval-store'
import type { Principal } from '#core/principal'
import { noteEnded } from '#core/runs/feed'
import { runEnded } from '#core/runs/runs'
import { type Logger, within } from '#core/runtime'
import type { SafetyTier, Tool } from '#core/tool'
import {
  type ApprovalFacts,
  type ApprovalPredicate,
  type ApprovalRules,
  type ApprovalTerms,
  type NamedTool,
  termsFor,
  writtenFor,
} from './approvals.ts'
import { approvalBinding, credentialTags, type ShownInput, shownInput } from './binding.ts'

/** A yes that the coming attempt may use, once. */
export interface Grant {
  readonly approvalId: string
  readonly binding: string
}

type ApprovalCheck =
  /** Nobody has to be asked. */
  | { readonly kind: 'free' }
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'parked'; readonly approval: ApprovalRecord }
  /** Something about the call changed meanwhile: look it up again. */
  | { readonly kind: 'changed' }

const FREE: ApprovalCheck = { kind: 'free' }

/** Whether the call may run: now, on a yes, or only after one. A call that needs one is parked here (rule 20). */
export async function checkApproval(services: CallServices, checked: CheckedCall): Promise<ApprovalCheck> {
  const { tool, call, seen } = checked
  if (seen?.state !== 'parked') {
    if (tool.policy.approval === 'never') return FREE
    const { principal, request } = call
    const isNeeded = await needsApproval(tool, services.approvalRules, {
      call: {
        principal,
        userId: call.isUserProven ? request.userId : undefined,
        claimedUserId: request.userId,
        input: checked.input,
      },
      log: services.log,
    })
    if (!isNeeded) return FREE
  }
  const { approvals } = services.store
  const credentials = credentialTags(approvals, tool, call)
  const binding = approvalBinding(approvals, { call, tool, input: checked.input, credentials })
  if (seen?.state === 'parked') return await judgeParked(services, checked, binding)
  const terms = termsFor(services.approvalRules, tool)
  const declared = onlyDeclared(call.request, tool)
  const shown = shownInput(call.input, tool.inputSchema.properties, (text) => redactText(text, declared))
  return await park(services, checked, { binding, terms, shown })
}

interface Question {
  readonly binding: string
  readonly terms: ApprovalTerms
  readonly shown: ShownInput
}

/** A caller may send whatever it likes as a secret; only what the tool asks for is one. */
function onlyDeclared(request: CallRequest, { requirements }: Tool): CallRequest {
  const { authorization = [], secrets = [] } = requirements ?? {}
  const among = (declared: readonly { readonly id: string }[]) => {
    const ids = new Set(declared.map(({ id }) => id))
    return ([id]: readonly [string, unknown]) => ids.has(id)
  }
  return {
    ...request,
    tokens: new Map([...request.tokens].filter(among(authorization))),
    secrets: new Map([...request.secrets].filter(among(secrets))),
  }
}

async function judgeParked(
  services: CallServices,
  { call, seen }: CheckedCall,
  binding: string,
): Promise<ApprovalCheck> {
  const { store, clock } = services
  const approval = await store.approvals.findFor(call)
  if (approval === undefined || approval.attempt !== seen?.attempt) return { kind: 'changed' }
  if (approval.expiresAtMs <= clock.nowMs()) {
    // Timeout is a refusal, also before whoever looks for such calls has come by (OWP-71).
    noteEnded(services, await store.approvals.expire(clock.nowMs()))
    return { kind: 'changed' }
  }
  if (approval.state !== 'pending' && approval.state !== 'granted') return { kind: 'changed' }
  // Rule 21: what is sent now is not what a yes is, or would be, for.
  if (approval.binding !== binding) throw otherThanAsked()
  if (approval.state === 'pending') return { kind: 'parked', approval }
  return { kind: 'granted', grant: { approvalId: approval.id, binding } }
}

function otherThanAsked() {
  return Object.assign(keyConflict(), {
    message:
      'This call waits for an approval with other credentials, or with an input that reads differently each time. Send exactly what was sent first, or use a new call id for a new call.',
  })
}

function newApproval(
  services: CallServices,
  { call, place }: CheckedCall,
  { binding, terms, shown, atMs }: Question & { readonly atMs: number },
): NewApproval {
  const { expiresAfterMs, ...rest } = terms
  return {
    tenant: call.tenant,
    id: services.newChallengeId(),
    subject: {
      callId: call.callId,
      runId: runIdOf(call, place),
      argsHash: argsHash(call),
      userId: call.request.userId,
      isUserProven: call.isUserProven === true,
      ...shown,
    },
    binding,
    ...rest,
    expiresAtMs: atMs + expiresAfterMs,
    notices: services.approvalRules.webhooks.map(({ target }) => ({ id: `msg_${randomUUID()}`, target })),
  }
}

async function park(
  services: CallServices,
  checked: CheckedCall,
  question: Question,
): Promise<ApprovalCheck> {
  const { call, seen } = checked
  const { mostParkedPerPrincipal: mostParked } = services.approvalRules
  const place = recordedScope(services.store, checked)
  const newCall = toNewCall(services.clock, { ...checked, place })
  const { session, atMs } = newCall
  const approval = newApproval(services, checked, { ...question, atMs })
  const parking: Parking = { approval, mostParked, keyed: call.keyed }
  const result =
    seen === undefined
      ? await services.store.approvals.park(newCall, parking)
      : await services.store.approvals.parkAgain(
          seen,
          { session, atMs, corrected: correctionOf(services, { call, seen }, newCall) },
          parking,
        )
  return told(services, checked, result)
}

function told(services: CallServices, { call, place }: CheckedCall, result: ParkResult): ApprovalCheck {
  switch (result.kind) {
    case 'parked':
      services.feed.notify(place.place?.run ?? call.record)
      return result
    case 'found':
      return { kind: 'changed' }
    case 'run_ended':
      throw runEnded(runIdOf(call, place))
    case 'full':
      throw fault(
        'rate_limited',
        `You have ${result.parked} calls that wait for an approval. Nothing was recorded; try again when some are decided.`,
        { retryAfterMs: 60_000 },
      )
  }
}

const LONGEST_MS = 5_000

/** What a predicate is told, before it is made safe to be told. */
interface AskedCall {
  readonly principal: Principal
  readonly userId: string | undefined
  readonly claimedUserId: string | undefined
  /** What `run` gets: whole, because a caller chooses what a summary would leave out. */
  readonly input: unknown
}

/** Rule 21: whatever is not certainly a "no need" means that a yes is needed. */
async function needsApproval(
  tool: NamedTool & Pick<Tool, 'id' | 'policy'>,
  rules: Pick<ApprovalRules, 'when' | 'whenPerTool'>,
  { call, log }: { readonly call: AskedCall; readonly log: Logger },
): Promise<boolean> {
  const { id, policy } = tool
  if (policy.approval !== 'conditional') return policy.approval === 'always'
  const when = writtenFor(rules.whenPerTool, tool)[0] ?? rules.when
  if (when === undefined) return true
  try {
    const facts = factsOf({ tool: id, tier: policy.safetyTier, ...call })
    return (await within(LONGEST_MS, () => when(facts))) !== false
  } catch (error) {
    log.error({ err: error, tool: id }, 'approvals.when failed, so the call needs an approval')
    return true
  }
}

function factsOf(
  told: AskedCall & { readonly tool: string; readonly tier: SafetyTier },
): Parameters<ApprovalPredicate>[0] {
  const { input, ...rest } = told
  const shown: ApprovalFacts = { ...rest, input: isObject(input) ? input : {} }
  return guarded(shown, '')
}

function isObject(value: unknown): value is ApprovalFacts['input'] {
  return typeof value === 'object' && value !== null
}

/** A predicate read what a call does not have: its author was wrong about the tool, or the caller left it out. */
export class MissingMember extends Error {
  override readonly name = 'MissingMember'
}

/**
 * A copy that can only be read, and only what is there: `undefined > 100` is `false`, and `false` would let the call
 * run. So a member that is not there throws, as does comparing a whole object. `in` and `Object.hasOwn` ask first.
 */
export function guarded<Value>(value: Value, path: string): Value
export function guarded(value: unknown, path: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const members = value.map((member: unknown, place) => guarded(member, `${path}[${place}]`))
    return new Proxy(Object.freeze(members), guardOf(path, Array.prototype))
  }
  // Dates, maps, sets and bytes: nothing of them is a member, and the tool's own must stay as they are.
  if (!isPlain(value)) return structuredClone(value)
  const members = Object.entries(value).map(([name, member]) => [
    name,
    guarded(member, path === '' ? name : `${path}.${name}`),
  ])
  return new Proxy(Object.freeze(Object.fromEntries(members)), guardOf(path, Object.prototype))
}

/** What the language itself looks for on objects that do not have it. */
const LOOKED_FOR: ReadonlySet<string> = new Set(['toJSON', 'then'])

function guardOf(path: string, methods: object): ProxyHandler<object> {
  return {
    get(target, name) {
      if (name === Symbol.toPrimitive) {
        throw new MissingMember(`${path || 'facts'} is no single value and was taken for one`)
      }
      const isThere = typeof name === 'symbol' || Object.hasOwn(target, name) || name in methods
      if (isThere || LOOKED_FOR.has(name)) return Reflect.get(target, name)
      const read = path === '' ? name : `${path}.${name}`
      throw new MissingMember(
        `it read ${read}, which this call does not have. Where that may be, ask first: '${name}' in ${path || 'facts'}`,
      )
    },
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
