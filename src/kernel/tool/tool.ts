import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import type { InputIssue } from '#kernel/base/errors'
import type { EntryKind, ToolId } from '#kernel/base/ids'
import type { JsonArray, JsonObject, JsonValue } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { Shown } from '#kernel/call/call'

/**
 * The model of a tool: its policy, its requirements, the context of a run, and the checked definition (`Tool`) that the server
 * lists and calls. Nearly every folder reads these types.
 * `POLICY_FIELDS` is the one declaration of the policy's fields and bounds.
 */

/**
 * Output schema of a tool that describes none but returns content as MCP does: `{ content: [{ type: 'text', text: '…' }, …] }`.
 * Blocks are passed on unchanged, so that a protocol which supports them can show pictures.
 */
export const CONTENT_BLOCKS_SCHEMA: JsonObject = {
  type: 'object',
  description: 'What the tool says, as content blocks of MCP: text, image, audio, resource_link or resource.',
  properties: {
    content: {
      type: 'array',
      items: { type: 'object', properties: { type: { type: 'string' } }, required: ['type'] },
    },
    structuredContent: { description: 'The same as plain JSON, when the tool gave it.' },
  },
  required: ['content'],
}

const CONTENT_BLOCKS_JSON = JSON.stringify(CONTENT_BLOCKS_SCHEMA)

export function isContentBlocksSchema(schema: JsonValue): boolean {
  return schema === CONTENT_BLOCKS_SCHEMA || JSON.stringify(schema) === CONTENT_BLOCKS_JSON
}

/** What an MCP server answered besides the value that programs read; callers on MCP get it back unchanged. */
export interface ShownContent {
  /** Absent where the value itself holds the blocks. */
  readonly content?: JsonArray
  /** Only for a failure, which has no value. */
  readonly structuredContent?: JsonValue
  readonly meta?: JsonObject
}

/** A value together with the content that its server showed. */
export class ShownValue {
  readonly value: JsonValue
  readonly shown: ShownContent

  constructor(value: JsonValue, shown: ShownContent) {
    this.value = value
    this.shown = shown
  }
}

/** The part of an output that programs read. */
export function plainValue(output: JsonValue | ShownValue | undefined): JsonValue | undefined {
  return output instanceof ShownValue ? output.value : output
}

/** The form that is recorded and sent. */
export function writeShown({ content, structuredContent, meta }: ShownContent): Shown {
  return {
    ...(content === undefined ? {} : { contentJson: JSON.stringify(content) }),
    ...(structuredContent === undefined ? {} : { structuredJson: JSON.stringify(structuredContent) }),
    ...(meta === undefined ? {} : { metaJson: JSON.stringify(meta) }),
  }
}

const OWN_CODE = 'openwop:'

/**
 * Whether another party wrote a tool's output, by its catalog id: true for everything but the operator's own code, and so for
 * workflows, which pass on the results of their steps (OWP-58). Models must not take such output for instructions.
 */
export function hasUntrustedOutput(catalogId: string): boolean {
  return !catalogId.startsWith(OWN_CODE)
}

export const SOURCE_KINDS = ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension'] as const
export type SourceKind = (typeof SOURCE_KINDS)[number]

/** The longest delay of a timer; a longer one would fire immediately. */
export const MAX_TIMER_MS = 2_147_483_647
const HINTS = ['low', 'medium', 'high'] as const

/**
 * Every field of a tool's policy, with its bounds: the types below, the checks of a definition, the options of sources
 * and the table in docs/configuration.md all come from here.
 */
export const POLICY_FIELDS = {
  /**
   * What a run may change. `pure`: nothing, and it reads nothing. `read`: it only reads. `write`: it changes something; such a
   * call is recorded before it runs and never runs twice. `exec`: it runs commands or code that the caller chooses, as a shell
   * does; such a tool is catalogued as a host extension. Default `write`.
   */
  safetyTier: { choices: ['pure', 'read', 'write', 'exec'] },
  /**
   * What a second run with the same input does. `deterministic`: gives the same result. `idempotent`: changes nothing more, so
   * that a write cut by a crash may run again. Default `non-deterministic`.
   */
  replay: { choices: ['deterministic', 'idempotent', 'non-deterministic'] },
  /**
   * An author's statement. `safe-fetch` is true only for a tool whose every request goes through `ctx.fetch`, and
   * `none` for one that makes none: in-process code is not kept from opening connections of its own.
   */
  egress: { choices: ['none', 'safe-fetch', 'host-mediated', 'host-owned'] },
  /**
   * Whether a person has to approve a call before it runs: `always`, `never`, or `conditional`, which asks unless `approvals.when` of the
   * configuration says no. Default `never`, and `always` for tier `exec`.
   */
  approval: { choices: ['never', 'conditional', 'always'] },
  /** Scopes that a caller must hold, all of them; for every other caller there is no such tool. Default none. */
  scopes: { minItems: 0, each: /^\S+$/ },
  /** Tenants whose callers see the tool; hidden from all others. Default: all tenants. */
  tenants: { minItems: 1 },
  /** How long a run may take, in milliseconds. Default `calls.defaultTimeoutMs` of the configuration. */
  timeoutMs: { isWhole: true, min: 1, max: MAX_TIMER_MS },
  /** How long after a crash an idempotent write may run again. Default one hour, and seven days for a workflow. */
  rerunWindowMs: { isWhole: true, min: 0, max: MAX_TIMER_MS },
  /** How expensive a run is, for models that choose between tools. */
  costHint: { choices: HINTS },
  /** How long a run usually takes, for models that choose between tools. */
  latencyHint: { choices: HINTS },
  /** What one run takes from budgets that count cost; default 1. */
  cost: { isWhole: false, min: 0, max: 1_000_000_000 },
} as const

type PolicyFields = typeof POLICY_FIELDS
type PolicyValue<Field> = Field extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : Field extends { readonly minItems: number }
    ? readonly string[]
    : number
type PolicyValues = { readonly [Name in keyof PolicyFields]: PolicyValue<PolicyFields[Name]> }

export type SafetyTier = PolicyValues['safetyTier']
export type ReplayPolicy = PolicyValues['replay']
export type Egress = PolicyValues['egress']
export type Approval = PolicyValues['approval']
export type Hint = PolicyValues['costHint']

/** A policy as an author or an operator writes it. */
export interface PolicyDefinition extends Partial<PolicyValues> {}

type FilledIn = 'safetyTier' | 'replay' | 'approval' | 'scopes' | 'timeoutMs' | 'rerunWindowMs'

/** A policy with every default filled in. */
export interface ToolPolicy extends Pick<PolicyValues, FilledIn>, Omit<PolicyDefinition, FilledIn> {}

/** Statements of an upstream that change nothing here; MCP clients decide by them whether to ask their user. */
export interface ShownHints {
  /** It only adds and never deletes or overwrites. Absent = it may do both. */
  readonly additive?: true
  /** It works on its own data only and reaches no open network. Absent = it may. */
  readonly closedWorld?: true
}

interface SecretRequirement {
  readonly id: string
  readonly [extra: string]: unknown
}

export interface AuthorizationRequirement extends SecretRequirement {
  readonly oauth2?: { readonly scopes?: readonly string[]; readonly [extra: string]: unknown }
}

/** What a call needs besides its input; open, because the standard keeps unknown members. */
export interface ToolRequirements {
  readonly authorization?: readonly AuthorizationRequirement[]
  readonly secrets?: readonly SecretRequirement[]
  /** `true`: a proven user id. `'claimed'`: an unproven one is enough, in `ctx.claimedUserId`. */
  readonly userId?: boolean | 'claimed'
  readonly [extra: string]: unknown
}

/** The second argument of `run`. */
export interface ToolContext {
  /** The caller's id of this call, or the one the server made; equal in every attempt. */
  readonly callId: string
  /** Id of the trace that the call belongs to, for your own logs. */
  readonly traceId: string
  /** The trace as a W3C `traceparent`, to send on; `ctx.fetch` sends it. Absent without tracing. */
  readonly traceparent?: string | undefined
  /** Aborted when the call runs out of time, is cancelled, or the server stops. Pass it to everything that takes long. */
  readonly signal: AbortSignal
  /** Id, tenant and scopes of the caller's credential. */
  readonly principal: Principal
  /**
   * The user the call is for, proven: the subject of the caller's own token, or named by a credential with `users:assert`, or
   * vouched for by `hooks.bindUser`. Trust this one.
   */
  readonly userId: string | undefined
  /** The user the caller claims to act for, proven or not. Any caller can write any name here. */
  readonly claimedUserId: string | undefined
  /** What the caller states about that user (`context.user_info`); never proven. */
  readonly userInfo: JsonValue | undefined
  /** The token for a declared authorization requirement. */
  token(id: string): Secret
  /** The value of a declared secret. */
  secret(id: string): Secret
  /**
   * `fetch` that is aborted with the call and reaches only what the server's `egress` settings allow. A refusal is a
   * `ToolError` with code `egress_denied`, a failure of the service `upstream_failed`.
   */
  readonly fetch: typeof fetch
  /** Writes to the server's log, with the tool and the call on every line: `ctx.log.info({ id }, 'looking')`. */
  readonly log: Logger
  /** Reports progress to the caller, where its protocol can show it: `ctx.progress(3, 10, 'third page')`. */
  progress(done: number, total?: number, message?: string): void
  /**
   * Asks the person behind the call; declined immediately where the caller's protocol cannot ask. The time it takes does not
   * count against `timeoutMs`.
   */
  elicit(question: Elicitation): Promise<ElicitationAnswer>
  /**
   * The idempotency key to send upstream for the nth effect of this call: equal in every attempt, different for every call, and
   * without any text of the caller.
   */
  effectKey(ordinal?: number): string
}

/** The context of a tool that keeps state between calls. */
export interface StatefulContext<State> extends ToolContext {
  /** The state that the session's `open` returned; `undefined` for tools without sessions. */
  readonly session: State
}

/** The source of a tool that keeps the id of its upstream. */
export interface KeptFrom {
  /** The toolkit of the source's other tools. */
  readonly toolkit: string
  /** Name of its pin. */
  readonly pin: string
}

/** How a definition that is no tool is listed. */
export interface ListedEntry {
  readonly kind: EntryKind
  /** The name that callers use: unique among the entries of its kind. */
  readonly name: string
  /** Its members as its author or its upstream wrote them, under the upstream's own name. */
  readonly definition: JsonObject
  /** Only of an entry written as code. Values for one of its arguments, given those that are complete already. */
  complete?(argument: string, value: string, others: Readonly<Record<string, string>>): Promise<Completion>
  /** Only of a template written as code: whether it has the address. */
  hasAddress?(uri: string): boolean
}

/** `undefined` for an argument that the entry does not have. */
type Completion = readonly string[] | undefined

/** A checked definition, ready to be listed and called. Made by `prepareTool`; frozen. */
export interface Tool {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  readonly parts: ToolId
  /** Function name for models: 1 to 64 of `A-Za-z0-9_-`, shared by all versions. */
  readonly name: string
  /** The `name` of the definition, where other tools have it too (`shared-names.ts`). */
  readonly writtenName?: string
  readonly title?: string
  /** openwop id, without a version. */
  readonly catalogId: string
  readonly description: string
  /** Words by which toolsets select tools. */
  readonly tags?: readonly string[]
  readonly source: SourceKind
  /** Published JSON Schema 2020-12, without `$ref` and definitions. `{}` = no parameters. */
  readonly inputSchema: JsonObject
  /** `null` = no output, `{}` = any value. */
  readonly outputSchema: JsonObject | null
  /** Both schemas as written, with their `$ref` and definitions, for protocols that support those. */
  readonly authored?: { readonly input: JsonObject; readonly output: JsonObject | null }
  readonly requirements?: ToolRequirements
  readonly policy: ToolPolicy
  /** The source of an imported tool that keeps the upstream's id, which does not name it. */
  readonly keptFrom?: KeptFrom
  /** Hints of the upstream that the operator accepts. */
  readonly shownHints?: ShownHints
  /** The name that its upstream gives it; absent for own tools. */
  readonly nativeName?: string
  /** Present for a prompt or another entry, which no list of tools shows. */
  readonly entry?: ListedEntry
  /** Members of an MCP server's definition that change nothing here and are passed on: icons, `_meta`. */
  readonly passedOn?: JsonObject
  /** Present for a tool that keeps state between calls. */
  readonly session?: SessionHooks
  /** Present for a tool made of other tools. */
  readonly workflow?: WorkflowParts
  /** Digest of everything above, which a claim pins. */
  readonly definitionHash: string
  /** Checks an input against the published schema; no coercion, no defaults. Compiled at the first call. */
  checkInput(input: JsonValue): readonly InputIssue[]
  /** The schema library's own parse, whose result `run` gets. Runs after `checkInput`. */
  parseInput(input: JsonValue): ParsedInput | Promise<ParsedInput>
  /** Problems of a value against `outputSchema`, for the developer; empty when it conforms. */
  checkOutput(value: JsonValue): readonly string[]
  run(input: unknown, context: StatefulContext<unknown>): unknown
}

/** The tools that a workflow calls, and what follows from them. */
interface WorkflowParts {
  /** References as its author wrote them. */
  readonly uses: readonly string[]
  /** Policy and digest without its steps; the rest is derived again whenever other tools are served. */
  readonly own: { readonly policy: ToolPolicy; readonly definitionHash: string }
  /** By id, exactly as they are called; `undefined` until all of them are served. */
  readonly steps: ReadonlyMap<string, WorkflowStep> | undefined
  /** Nesting of workflows: 1 for one without inner workflows. */
  readonly depth: number
  /** Its function, run in place of the tool's `run` with a `WorkflowContext` that can call its steps. */
  run(input: unknown, context: object): unknown
}

export interface WorkflowStep {
  readonly id: string
  /** The names its workflow may use, without a version: base name, function name, catalog id. */
  readonly names: readonly string[]
  readonly definitionHash: string
  /** Whether it, or a step of it, may have to wait for approval. */
  readonly asks: boolean
  /** Whether it, or a step of it, needs a stored credential. */
  readonly needsCredential: boolean
}

export type ParsedInput =
  | { readonly ok: true; readonly input: unknown }
  | { readonly ok: false; readonly issues: readonly InputIssue[] }

/** How the host reaches a tool (OWP-51). */
const TRANSPORTS = {
  'node-pack': 'native',
  workflow: 'native',
  mcp: 'mcp',
  connector: 'http',
  'host-extension': 'native',
} as const satisfies Record<SourceKind, Transport>

export type Transport = 'mcp' | 'http' | 'native'

export function transportOf({ source }: Pick<Tool, 'source'>): Transport {
  return TRANSPORTS[source]
}

/** The approval that callers see: a workflow without an approval of its own has that of its steps. */
export function effectiveApproval({ policy, workflow }: Pick<Tool, 'policy' | 'workflow'>): Approval {
  if (policy.approval !== 'never') return policy.approval
  return stepsOf(workflow).some(({ asks }) => asks) ? 'conditional' : 'never'
}

/** OWP-34: a user id is not a credential. */
export function needsCredential({
  requirements,
  workflow,
}: Pick<Tool, 'requirements' | 'workflow'>): boolean {
  const { authorization = [], secrets = [] } = requirements ?? {}
  if (authorization.length + secrets.length > 0) return true
  return stepsOf(workflow).some((step) => step.needsCredential)
}

function stepsOf(workflow: WorkflowParts | undefined): readonly WorkflowStep[] {
  return [...(workflow?.steps?.values() ?? [])]
}

/** Whether callers of the tenant may see the tool. */
export function isForTenant({ tenants }: Pick<ToolPolicy, 'tenants'>, tenant: string): boolean {
  return tenants === undefined || tenants.includes(tenant)
}

/** Whether a run may change anything outside: such calls are claimed before they start (rule 7). */
export function hasEffects(policy: Pick<ToolPolicy, 'safetyTier'>): boolean {
  return policy.safetyTier === 'write' || policy.safetyTier === 'exec'
}

/** The context of opening and closing a session's state. */
export interface SessionContext {
  readonly sessionId: string
  readonly principal: Principal
  /** Proven, as in a call. */
  readonly userId: string | undefined
  /** The user the caller claims to act for, proven or not. */
  readonly claimedUserId: string | undefined
  readonly log: Logger
}

/** How a stateful tool makes and releases what its calls share. State lives in the process that made it. */
export interface SessionHooks<State = unknown> {
  open(context: SessionContext): State | Promise<State>
  /** Called once, when every call has ended; an interrupted one may still hold the state. */
  close(state: State, context: SessionContext): void | Promise<void>
  /** How long a session without calls stays open. */
  readonly idleMs: number
  /** Whether calls outside of a session run without state. */
  readonly isOptional?: boolean
}
