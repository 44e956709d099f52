import { fault, type InputIssue, issuePhrase, type ToolError } from '#kernel/base/errors'
import { ownRunId, type ToolRef, writeToolRef } from '#kernel/base/ids'
import { inexactIntegersIn, isJsonObject, type JsonValue } from '#kernel/base/json'
import { nearestName } from '#kernel/base/nearest-name'
import type { MaybePromise } from '#kernel/base/waiting'
import { implicitRun, namedRun, namedScope } from '#kernel/run/runs'
import type { KernelStore } from '#kernel/store/store'
import type { Catalog, ToolSet } from '#kernel/tool/catalog'
import { sharedNameHint } from '#kernel/tool/shared-names'
import { hasEffects, type ParsedInput, type Tool, transportOf } from '#kernel/tool/tool'
import type { CallRecord, CallSession, NewCall, RunScope } from './call-record.ts'
import { argsHash, type IdentifiedCall, type Identities, isSameRequest } from './look-up.ts'
import type { CallStages, LiveSession, NamedCall, UnstartedCall } from './stages.ts'

/**
 * Resolves what a request refers to, before it runs: the tool and its version, the checked input, the run and the session.
 * `call-tool.ts` takes these steps in order; parking and claiming turn the result into a record.
 * Errors reveal nothing beyond the principal's own catalog (rule 2).
 */

/** A call that has passed its checks, with everything that is needed to run it. */
export interface CheckedCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  readonly scope: CallScope
  /** The parsed input, for the tool's `run`. */
  readonly input: unknown
  /** The record whose next attempt this is. */
  readonly previous: CallRecord | undefined
}

/**
 * Searches the principal's own catalog, so that hidden and unknown tools take the same path (rule 2). A repeated call
 * uses exactly the version and definition of its claim (rule 5).
 */
export function resolveTool(registry: ToolSet, call: IdentifiedCall, previous: CallRecord | undefined): Tool {
  const catalog = registry.catalogFor(call.principal)
  const tool = previous === undefined ? catalog.resolve(call.request.tool) : catalog.get(previous.tool)
  if (previous === undefined) {
    if (tool === undefined) throw toolNotFound(call, suggestTool(catalog, call.request.tool))
    // A step uses exactly the definition that its workflow's claim pins (rule 31).
    if (call.step !== undefined && call.step.definitionHash !== tool.definitionHash) throw notServed(tool.id)
    return tool
  }
  if (tool?.definitionHash === previous.definitionHash) return tool
  if (tool === undefined) throw notServed(previous.tool)
  // A suspended workflow is parked too, but approvals are requested for its steps, not for itself.
  const waitsForApproval = previous.state === 'parked' && previous.waitsFor === undefined
  throw waitsForApproval ? changedSinceApprovalRequest(previous.tool) : changedSinceBegun(previous)
}

/**
 * An approval is only valid for the definition that was shown to the approver (rule 21).
 */
function changedSinceApprovalRequest(id: string): ToolError {
  return fault(
    'approval_rejected',
    `The definition of ${id} has changed since approval was requested, so the approval is no longer valid. Nothing was run. Make a new call, with a new call id.`,
  )
}

/** A call continues only with the definition it began with (rule 5); an operator may serve that definition again. */
function changedSinceBegun({ tool, resumable }: CallRecord): ToolError {
  const stepsKept = resumable ? ' Its finished steps are kept.' : ''
  return fault(
    'not_ready',
    `The definition of ${tool} has changed since this call began, and a call continues only with the definition it began with.${stepsKept} Repeat it once that definition is served again, or make a new call, with a new call id, which starts from the beginning.`,
    { retryAfterMs: 5_000 },
  )
}

function notServed(id: string): ToolError {
  const message = `${id}, which this call began with, is not served here right now. Try again later.`
  return fault('not_ready', message, { retryAfterMs: 5_000 })
}

function toolNotFound({ request }: IdentifiedCall, nextStep: string | undefined): ToolError {
  const message = `Tool '${writeToolRef(request.tool)}' was not found.`
  if (nextStep !== undefined) return fault('tool_not_found', `${message} ${nextStep}`, { nextStep })
  return fault('tool_not_found', `${message} List the tools to see what is served.`)
}

const MAX_NAMES_COMPARED = 2_000

/** Suggests another version or a similar name, from the caller's own catalog only (rule 2). */
function suggestTool(catalog: Catalog, requested: ToolRef): string | undefined {
  const versions = catalog.versionsOf(requested.base).map(({ parts }) => parts.version)
  if (versions.length > 0) return `Versions served: ${versions.join(', ')}.`
  const shared = requested.isOtherName ? sharedNameHint(requested.base, catalog.tools) : undefined
  if (shared !== undefined) return shared
  const near = nearestTool(catalog, requested)
  if (near !== undefined) return `Did you mean '${near}'?`
  return requested.isOtherName === undefined ? toolsOfToolkit(catalog, requested.base) : undefined
}

const MAX_TOOLS_LISTED = 10

function toolsOfToolkit(catalog: Catalog, base: string): string | undefined {
  const [toolkit = ''] = base.split('.', 1)
  const tools = catalog.bases().filter((name) => name.startsWith(`${toolkit}.`))
  if (tools.length === 0) return undefined
  const more = tools.length > MAX_TOOLS_LISTED ? ` and ${tools.length - MAX_TOOLS_LISTED} more` : ''
  return `${toolkit} has ${tools.slice(0, MAX_TOOLS_LISTED).join(', ')}${more}.`
}

/** Suggests a name in the spelling of the request. */
function nearestTool(catalog: Catalog, { base, isOtherName }: ToolRef): string | undefined {
  if (isOtherName === undefined) return nearestName(base, catalog.bases().slice(0, MAX_NAMES_COMPARED))
  const spell = base.includes(':') ? ({ catalogId }: Tool) => catalogId : ({ name }: Tool) => name
  return nearestName(base, catalog.latest().slice(0, MAX_NAMES_COMPARED).map(spell))
}

/** Refuses integers that would reach the tool with another value, before the input is compared with recorded inputs. */
export function checkExactInput(input: JsonValue | undefined): void {
  const pointers = inexactIntegersIn(input)
  if (pointers.length === 0) return
  const issues = pointers.map((pointer) => ({
    parameter: pointer.split('/')[1]?.replaceAll('~1', '/').replaceAll('~0', '~') ?? '',
    pointer,
    message: 'Is an integer that cannot be represented exactly; send it as a string',
  }))
  throw invalidInput('The input', issues)
}

/** OTC-80: checks the JSON Schema, then lets the schema library parse the input; the tool's `run` gets the parsed input. */
export function validateInput(tool: Tool, input: JsonValue): MaybePromise<unknown> {
  if (!isJsonObject(input)) {
    throw fault('input_invalid', `The input of ${tool.id} must be a JSON object of parameters.`)
  }
  const issues = tool.checkInput(input)
  if (issues.length > 0) throw invalidInput(inputOf(tool), issues)
  const parsing = tool.parseInput(input)
  const read = (parsed: ParsedInput): unknown => {
    if (parsed.ok) return parsed.input
    throw invalidInput(inputOf(tool), parsed.issues)
  }
  return parsing instanceof Promise ? parsing.then(read) : read(parsing)
}

function inputOf(tool: Tool): string {
  return `The input of ${tool.id}`
}

function invalidInput(subject: string, issues: readonly InputIssue[]): ToolError {
  const shown = issues.slice(0, 5).map(issuePhrase)
  const more = issues.length > shown.length ? ` (and ${issues.length - shown.length} more)` : ''
  return fault('input_invalid', `${subject} is invalid: ${shown.join('; ')}${more}.`, { issues })
}

/** The run and the session of an attempt, if it has them. */
export interface CallScope {
  readonly run: RunScope | undefined
  readonly session: CallSession | undefined
  /** The session that the caller named, whose state the tool uses. */
  readonly live: LiveSession | undefined
}

export interface ScopeNeeds extends Pick<CallStages, 'sessions'> {
  readonly store: KernelStore
}

const ALONE: CallScope = { run: undefined, session: undefined, live: undefined }

/**
 * A stateful tool runs in a session: the session that its caller named, or one made for the call (rule 30). If state is optional,
 * a call without a session is like any other call; if the caller names a run, the run's events open and close a session around
 * the call (openwop §7.3).
 */
export function resolveScope(
  needs: ScopeNeeds,
  scoped: Pick<CheckedCall, 'call' | 'tool' | 'previous'>,
): MaybePromise<CallScope> {
  const { call, tool } = scoped
  const { runId, sessionId } = call.request
  const hasOwn = tool.session !== undefined && (!tool.session.isOptional || runId !== undefined)
  const isPlain = !hasOwn && tool.workflow === undefined && call.step === undefined
  if (runId === undefined && sessionId === undefined && isPlain) return ALONE
  return sessionId === undefined
    ? scopeInRun(needs, scoped, hasOwn)
    : scopeInSession(needs, scoped, sessionId)
}

async function scopeInRun(
  needs: ScopeNeeds,
  { call, tool, previous }: Pick<CheckedCall, 'call' | 'tool' | 'previous'>,
  hasOwn: boolean,
): Promise<CallScope> {
  const run = await runOf(needs, call, tool)
  if (!hasOwn) return { ...ALONE, run }
  // The run's events already report the session of an attempt that waits for approval as open (OWP-45).
  const parkedId = previous?.state === 'parked' ? previous.sessionId : undefined
  const sessionId = parkedId ?? `ses_${needs.sessions.newId()}`
  return { ...ALONE, run, session: { sessionId, isOwn: true } }
}

/** Steps are reported in their workflow's run, which has events from the beginning (rule 31). */
async function runOf(
  { store }: ScopeNeeds,
  call: IdentifiedCall,
  { workflow }: Tool,
): Promise<RunScope | undefined> {
  if (call.step !== undefined) return call.step.run
  const { runId } = call.request
  if (runId !== undefined) return await namedRun(store, call.principal, runId)
  return workflow === undefined ? undefined : implicitRun(call.principal, call.record)
}

async function scopeInSession(
  needs: ScopeNeeds,
  { call, tool }: Pick<CheckedCall, 'call' | 'tool'>,
  sessionId: string,
): Promise<CallScope> {
  const { runId, userId } = call.request
  const live = needs.sessions.find(call.principal, userId, sessionId)
  if (live === undefined) throw await needs.sessions.notFound(call.principal, sessionId)
  if (live.tool.id !== tool.id) {
    throw fault('request_invalid', `This session belongs to ${live.tool.id}; ${tool.id} cannot use it.`)
  }
  if (runId !== undefined && runId !== live.run.runId) {
    throw fault('request_invalid', `This session belongs to run '${live.run.runId}', not '${runId}'.`)
  }
  return { run: live.run, session: { sessionId, isOwn: false }, live }
}

/** A call stays in the run in which it was first recorded, even if its next attempt names another run. */
export function recordedScope(
  store: KernelStore,
  { call, scope, previous }: Pick<CheckedCall, 'call' | 'scope' | 'previous'>,
): CallScope {
  // A new call and a workflow step keep the scope they were resolved with.
  if (previous === undefined || call.step !== undefined) return scope
  const { runId, run, record } = previous
  if (runId !== undefined && runId !== ownRunId(record)) {
    return { ...scope, run: namedScope(store, call.principal, runId) }
  }
  // A parked call or a workflow that names no run stores the events of its implicit run from its first attempt on.
  const isOwn = run === record && (previous.state === 'parked' || previous.resumable)
  return { ...scope, run: isOwn ? implicitRun(call.principal, record) : undefined }
}

export function toNewCall({ call, tool, scope }: CheckedCall, atMs: number): NewCall {
  return {
    ...nameCall(call, tool),
    by: call.principal.operatedBy,
    scope: scope.run,
    session: scope.session,
    protocol: call.request.protocol,
    fingerprint: call.fingerprint,
    tool: tool.id,
    definitionHash: tool.definitionHash,
    tier: tool.policy.safetyTier,
    replay: tool.policy.replay,
    // Rule 30: a call that ran in a session is never run again.
    rerunUntilMs: scope.session === undefined ? rerunUntil(tool, atMs) : 0,
    inputJson: call.inputJson,
    atMs,
    step: call.step === undefined ? undefined : { parent: call.step.parent, root: call.step.root },
    resumable: tool.workflow === undefined ? undefined : true,
  }
}

/** The new content of a released call whose next attempt has other input (rule 9). */
export function correctionOf(
  identities: Identities,
  { call, previous }: { readonly call: IdentifiedCall; readonly previous: CallRecord },
  newCall: NewCall,
): NewCall | undefined {
  const isOther = previous.state === 'released' && !isSameRequest(identities, call, previous)
  return isOther ? newCall : undefined
}

/** A call that will not start, for the events of its run. */
export function unstarted(call: IdentifiedCall, tool: Tool, { run }: Pick<CallScope, 'run'>): UnstartedCall {
  const { principal, record } = call
  return { principal, record, tool, run, name: () => nameCall(call, tool) }
}

function nameCall(call: IdentifiedCall, tool: Tool): NamedCall {
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal.id,
    callId: call.callId,
    toolId: tool.catalogId,
    transport: transportOf(tool),
    argsHash: argsHash(call),
    traceId: call.request.traceId ?? '',
    userId: call.request.userId,
  }
}

/** The time until which a run that a crash interrupted may run again (rule 8; rule 31 for workflows). */
function rerunUntil(tool: Tool, atMs: number): number {
  if (tool.workflow !== undefined) return atMs + tool.policy.rerunWindowMs
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}
