import { hash } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import {
  inTimeOrder,
  LATEST,
  ownRunId,
  parseToolId,
  plainVersion,
  runIdOf,
  type ToolId,
  type ToolRef,
} from '#kernel/base/ids'
import { canonicalJson, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { StoreChanges } from '#kernel/run/runs'
import type { KernelStore } from '#kernel/store/store'
import type { ToolSet } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import type { CallError, CallRequest, Failure, Outcome } from './call.ts'
import type { CallAddress, CallRecord } from './call-record.ts'
import { redactText } from './redact.ts'
import { LOST, type RunningCall, type RunningCalls } from './running.ts'
import { type StepOrigin, stepRecord, workflowDiverged } from './step-origin.ts'

/**
 * The identity of a call, and the look-up of its key. Identity: the record that a key names, the fingerprint of a request, and
 * whether two requests are equal (rules 3 to 5); record and fingerprint are keyed digests, so the store does not reveal the
 * caller's text. Look-up: a run of this process to join, a recorded answer to repeat, or a record whose next attempt the request
 * may make (rules 1, 9, 11 to 13). `call-tool.ts` looks up first, before it resolves anything; a look-up checks and runs nothing.
 */

/** Computes keyed digests and resolves tool names. */
export interface Identities {
  readonly store: Pick<KernelStore, 'digest'>
  readonly registry: ToolSet
}

const NO_INPUT: JsonValue = {}

/** A request together with its record and its fingerprint. */
export interface IdentifiedCall extends CallAddress {
  readonly principal: Principal
  readonly callId: string
  /** False if the server made the call id: no earlier request can have used it. */
  readonly keyed: boolean
  /** `Toolkit.Name` of the requested tool, or the requested name if no tool has it. */
  readonly base: string
  readonly fingerprint: string
  readonly input: JsonValue
  readonly inputJson: string
  readonly request: CallRequest
  /** References to the vault credentials used for the call, by `authorization:<id>` and `secrets:<id>`; absent = none. */
  readonly vaultRefs?: ReadonlyMap<string, string>
  /** The user in the request is proven (OTC/T-27); absent if the caller only claims the user, or names no user. */
  readonly isUserProven?: true
  /** Present if this call is a workflow step; only the server that runs a workflow makes steps (rule 31). */
  readonly step?: StepOrigin | undefined
}

export function identifyCall(
  { store, registry }: Identities,
  caller: Pick<IdentifiedCall, 'principal' | 'request' | 'step'> & { readonly freshId: () => string },
): IdentifiedCall {
  const { principal, request, step } = caller
  const callId = step?.callId ?? request.key ?? caller.freshId()
  const input = request.input === undefined ? NO_INPUT : request.input
  const inputJson = canonicalJson(input)
  const base = baseOf(registry, principal, request.tool)
  return {
    tenant: principal.tenant,
    record: step === undefined ? recordOf(store, principal, callId) : stepRecord(store, step),
    principal,
    callId,
    keyed: step !== undefined || request.key !== undefined,
    base,
    fingerprint: fingerprintOf(store, { base, principal, request }, inputJson),
    input,
    inputJson,
    request,
    step,
  }
}

/** A tool id contains its base; any other name has to be looked up. */
function baseOf(registry: ToolSet, principal: Principal, { base, isOtherName }: ToolRef): string {
  if (isOtherName === undefined) return base
  return registry.catalogFor(principal).versionsOf(base)[0]?.parts.base ?? base
}

/** Rule 5: the version is compared with the recorded one, so it is not part of the fingerprint. */
function fingerprintOf(
  store: Pick<KernelStore, 'digest'>,
  { base, principal, request }: Pick<IdentifiedCall, 'base' | 'principal' | 'request'>,
  inputJson: string,
): string {
  const parts = ['fingerprint', base, request.userId ?? null, request.sessionId ?? null]
  // A caller cannot resume a call that an operator ran in its name, and an operator cannot resume the caller's.
  const purpose = principal.operatedBy !== undefined && principal.isLocal !== true ? 'run as ' : ''
  return store.digest(`${purpose}${JSON.stringify(parts)}${inputJson}`)
}

export function recordOf(
  store: Pick<KernelStore, 'digest'>,
  principal: Pick<Principal, 'tenant' | 'id'>,
  callId: string,
): string {
  const digest = store.digest(JSON.stringify(['call', principal.tenant, principal.id, callId]))
  return inTimeOrder(digest, callId)
}

/** The call with its input in the form that this tool expects, so that the fingerprint is equal on every protocol (rule 5). */
export function adaptInput(
  store: Pick<KernelStore, 'digest'>,
  call: IdentifiedCall,
  tool: Tool,
): IdentifiedCall {
  const { adapt } = call.request
  if (adapt === undefined) return call
  const input = adapt(tool, call.input)
  if (input === call.input) return call
  const inputJson = canonicalJson(input)
  return { ...call, input, inputJson, fingerprint: fingerprintOf(store, call, inputJson) }
}

/** The request behind a stored record or behind a run of this process. */
type RecordedRequest = Pick<CallRecord, 'tool' | 'toolId' | 'fingerprint'>

/** Rule 5: equal requests have the same tool (under any of its names), input, user and session, and accept the recorded version. */
export function isSameRequest(
  identities: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  if (!acceptsVersion(call, recorded)) return false
  return recorded.fingerprint === call.fingerprint || matchesOtherInput(identities, call, recorded)
}

/** A request without a version accepts the recorded one. */
function acceptsVersion({ request }: IdentifiedCall, { tool }: RecordedRequest): boolean {
  const { version } = request.tool
  if (version === LATEST || tool.endsWith(`@${version}`)) return true
  return plainVersion(parseToolId(tool)?.version ?? '') === version
}

/** The recorded tool, if the request names it, or may have named it before the tool was removed (rule 1). */
function namedTool({ base, request }: IdentifiedCall, { tool, toolId }: RecordedRequest): ToolId | undefined {
  const named = parseToolId(tool)
  if (named === undefined) return undefined
  const names = request.tool.isOtherName === true ? [`${named.toolkit}_${named.name}`, toolId] : []
  return base === named.base || names.includes(base) ? named : undefined
}

/**
 * Whether a request with another fingerprint is still the recorded request: the tool may have been changed, renamed or removed
 * in the meantime, and a lost reply must still be found (rule 1).
 */
function matchesOtherInput(
  { store, registry }: Identities,
  call: IdentifiedCall,
  recorded: RecordedRequest,
): boolean {
  const named = namedTool(call, recorded)
  if (named === undefined) return false
  const renamed = { ...call, base: named.base }
  return candidateInputs(registry, call).some(
    (inputJson) => fingerprintOf(store, renamed, inputJson) === recorded.fingerprint,
  )
}

/** Candidate inputs: as sent, as adapted for the current tool, and as adapted for a tool that has been removed. */
function candidateInputs(registry: ToolSet, call: IdentifiedCall): readonly string[] {
  const { principal, request, input, inputJson } = call
  if (request.adapt === undefined) return [inputJson]
  const tool = registry.catalogFor(principal).resolve(request.tool)
  const adapted = tool === undefined ? input : request.adapt(tool, input)
  return [inputJson, canonicalJson(adapted), canonicalJson(withoutNulls(input))]
}

function withoutNulls(input: JsonValue): JsonValue {
  if (!isJsonObject(input)) return input
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null))
}

/** Identifies equal inputs without revealing them: hex SHA-256 of the canonical input without its credentials (OWP-52). */
export function argsHash({ input, inputJson, request }: IdentifiedCall): string {
  const hasCredentials = request.tokens.size > 0 || request.secrets.size > 0
  const shown = hasCredentials
    ? canonicalJson(redacted(input, (text) => redactText(text, request)))
    : inputJson
  return hash('sha256', shown, 'hex')
}

/** Redacts each string value instead of the serialised JSON, in which a credential may be escaped. */
function redacted(value: JsonValue, clean: (text: string) => string): JsonValue {
  if (typeof value === 'string') return clean(value)
  if (typeof value !== 'object' || value === null) return value
  if (!isJsonObject(value)) return value.map((member) => redacted(member, clean))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [clean(name), redacted(member ?? null, clean)]),
  )
}

/** Polling intervals for a call that runs in another process; a change notification ends the wait sooner. */
const FIRST_JOIN_MS = 50
const MAX_JOIN_MS = 250
const MAX_STRAY_ROUNDS = 20

/** The outcome of a call, and the tool that ran. */
export interface Answer {
  readonly kind: 'answer'
  readonly outcome: Outcome
  readonly runId: string
  readonly tool: string
  readonly toolId: string
  /** True if another request ran the call. */
  readonly replayed: boolean
}

type LookUpResult =
  | Answer
  /** A recorded call whose next attempt this request may make. */
  | { readonly kind: 'again'; readonly previous: CallRecord }
  /** The key belongs to another request. */
  | { readonly kind: 'other' }

const OTHER: LookUpResult = { kind: 'other' }

export interface LookUpNeeds extends Identities {
  readonly store: KernelStore
  readonly clock: Clock
  readonly running: RunningCalls
  readonly changes: StoreChanges
  /** Settles the calls that dead servers left running. */
  recover(): Promise<void>
}

/** Rule 1: returns the answer of the call that already has the key, or joins its run. */
export async function lookUp(needs: LookUpNeeds, call: IdentifiedCall): Promise<LookUpResult | undefined> {
  for (let round = 0; ; round += 1) {
    const running = needs.running.get(call.record)
    if (running !== undefined) {
      if (isOther(needs, call, requestOf(running))) return OTHER
      const outcome = await running.done
      if (outcome === LOST) continue
      return answerOf(running, outcome, true)
    }
    const read = needs.store.find(call)
    const record = read instanceof Promise ? await read : read
    if (record === undefined) return undefined
    if (isOther(needs, call, record)) {
      // Rule 9: the next attempt of a released call may have other input.
      const isFree = mayCorrect(call, record) && !isHidden(needs.registry, call.principal, record.tool)
      return isFree ? { kind: 'again', previous: record } : OTHER
    }
    const found = await judge(needs, call, record)
    if (found !== 'look again') return found
    const waitMs = Math.min(MAX_JOIN_MS, FIRST_JOIN_MS * (round + 1))
    await needs.changes.next(record.run ?? record.record, waitMs)
    if (round > MAX_STRAY_ROUNDS && isStray(needs, record)) {
      const message = 'This call is recorded as running, but no process runs it. An operator has to check it.'
      throw fault('not_ready', message, { retryAfterMs: 60_000 })
    }
  }
}

export function answerOf({ call, tool, scope }: RunningCall, outcome: Outcome, replayed: boolean): Answer {
  const runId = runIdOf(call, scope)
  return { kind: 'answer', outcome, runId, tool: tool.id, toolId: tool.catalogId, replayed }
}

/** The run of the same request in this process. */
export function join(needs: LookUpNeeds, call: IdentifiedCall): RunningCall | undefined {
  const running = needs.running.get(call.record)
  if (running === undefined) return undefined
  if (isOther(needs, call, requestOf(running))) throw keyConflict()
  return running
}

function requestOf({ tool, call }: RunningCall): RecordedRequest {
  return { tool: tool.id, toolId: tool.catalogId, fingerprint: call.fingerprint }
}

/** Whether the key belongs to another request, or to a tool hidden from the caller (rule 2). A workflow step throws instead. */
function isOther(needs: LookUpNeeds, call: IdentifiedCall, recorded: RecordedRequest): boolean {
  if (isHidden(needs.registry, call.principal, recorded.tool)) return true
  if (isSameRequest(needs, call, recorded)) return false
  if (call.step !== undefined) throw workflowDiverged(call.step, recorded)
  return true
}

/** True if the call is recorded as running in this process but is not: only a bug causes this, and waiting does not help. */
function isStray(needs: LookUpNeeds, record: CallRecord): boolean {
  return record.writer === needs.store.writer && needs.running.get(record.record) === undefined
}

async function judge(
  needs: LookUpNeeds,
  call: IdentifiedCall,
  record: CallRecord,
): Promise<LookUpResult | 'look again'> {
  // Rule 13: an expired record never runs again, however its call ended.
  if (record.state === 'released' && !record.expired) return { kind: 'again', previous: record }
  // Rule 1: a call that waits for approval goes through the whole ladder again.
  if (record.state === 'parked') return { kind: 'again', previous: record }
  if (record.state !== 'running') {
    const { runId = ownRunId(record.record), tool, toolId } = record
    return { kind: 'answer', outcome: answerRecorded(record), runId, tool, toolId, replayed: true }
  }
  if (record.writer === needs.store.writer && needs.running.takeAbandoned(call.record)) {
    return { kind: 'again', previous: record }
  }
  if (!(await needs.store.isWriterAlive(record.writer))) {
    if (mayRunAgain(record, needs.clock.nowMs())) return { kind: 'again', previous: record }
    await needs.recover()
  }
  return 'look again'
}

/** A request between its look-up and its reply. */
class StartingCall {
  readonly #remove: () => void
  #ended: PromiseWithResolvers<void> | undefined

  constructor(remove: () => void) {
    this.#remove = remove
  }

  get ended(): Promise<void> {
    this.#ended ??= Promise.withResolvers<void>()
    return this.#ended.promise
  }

  end(): void {
    this.#remove()
    this.#ended?.resolve()
  }
}

/** The first of several simultaneous requests with one key; the others wait for it instead of being refused. */
export class StartingCalls {
  readonly #byRecord = new Map<string, StartingCall>()

  /** `undefined` if another request with this key is already starting. */
  begin(record: string): StartingCall | undefined {
    if (this.#byRecord.has(record)) return undefined
    const starting = new StartingCall(() => this.#byRecord.delete(record))
    this.#byRecord.set(record, starting)
    return starting
  }

  get(record: string): StartingCall | undefined {
    return this.#byRecord.get(record)
  }
}

/** The outcome that a repeated request gets from a recorded call. */
export function answerRecorded(record: CallRecord): Outcome {
  if (record.outcome !== undefined) return record.outcome
  if (record.state === 'ambiguous') return ambiguous(record)
  if (record.expired) return expired(record)
  // Rule 12: settled as succeeded by an operator who did not know the value.
  const message = `${record.tool} took effect, but its result is unknown. Do not repeat it.`
  return failure('outcome_unknown', { message })
}

/** Rule 11: an ambiguous call is never retryable; the text tells the caller what to check. */
function ambiguous(record: CallRecord): Failure {
  return failure('ambiguous', {
    message: `The server stopped while ${record.tool} was running, so it may or may not have taken effect. Check for its effect before repeating it; an operator can settle this call.`,
    developerMessage: `Record ${record.record}. Settle it with: collet calls settle ${record.record} --as succeeded|failed|not-run --why TEXT`,
  })
}

/** Rule 13: the key outlives its result. */
function expired(record: CallRecord): Failure {
  const at = new Date(record.finishedAtMs ?? record.createdAtMs).toISOString()
  // A failed call may never have run: an approver may have rejected it.
  const how = record.state === 'succeeded' ? 'ran and succeeded' : 'failed'
  return failure('result_expired', {
    message: `This call already ${how} at ${at}; its result has expired. It was not run again.`,
  })
}

function failure(code: CallError['code'], texts: Pick<CallError, 'message' | 'developerMessage'>): Failure {
  return { ok: false, error: { code, ...texts, canRetry: false } }
}

/** Maximum number of attempts per call (rule 9); a crash loop must not repeat even an idempotent write without limit. */
export const MAX_ATTEMPTS = 3

/** Whether a run that a crash interrupted may run again (rule 8). Workflows have no limit, because they repeat no step (rule 31). */
function mayRunAgain({ rerunUntilMs, resumable, attempt }: CallRecord, nowMs: number): boolean {
  return nowMs < rerunUntilMs && (resumable || attempt < MAX_ATTEMPTS)
}

const NO_MORE = 'It cannot be tried again under this call id; use a new call id to try again.'

/** The failure of the last attempt: nothing took effect, but the call cannot be repeated under this id any more (rule 9). */
export function lastFailure(failure: Failure): Failure {
  const { retryAfterMs: _no, message, ...error } = failure.error
  const sentence = /[.!?]$/.test(message) ? message : `${message}.`
  return { ...failure, error: { ...error, message: `${sentence} ${NO_MORE}`, canRetry: false } }
}

/** True if the tool exists but is hidden from this principal; its calls are then hidden too (rules 1 and 2). */
export function isHidden(registry: ToolSet, principal: Principal, tool: string): boolean {
  return registry.get(tool) !== undefined && registry.catalogFor(principal).get(tool) === undefined
}

/** Rule 9: a call that failed without effect may be tried again with other input by the same user, in the same session if one is named. */
function mayCorrect(call: IdentifiedCall, record: CallRecord): boolean {
  const { userId, sessionId } = call.request
  if (record.state !== 'released' || record.expired || userId !== record.userId) return false
  if (sessionId !== undefined && sessionId !== record.sessionId) return false
  return acceptsVersion(call, record) && namedTool(call, record) !== undefined
}

export function keyConflict(): ToolError {
  return fault(
    'key_conflict',
    'This call id was already used for a different request. Use a new call id for a new call.',
  )
}
