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
 * Output schema for a tool that declares none but returns content as MCP does: `{ content: [{ type: 'text', text: '…' }, …] }`.
 * Blocks are passed on unchanged, so that a protocol that supports them can show images.
 */
export const CONTENT_BLOCKS_SCHEMA: JsonObject = {
  type: 'object',
  description: 'The result as content blocks of MCP: text, image, audio, resource_link or resource.',
  properties: {
    content: {
      type: 'array',
      items: { type: 'object', properties: { type: { type: 'string' } }, required: ['type'] },
    },
    structuredContent: { description: 'The result as plain JSON, if the tool returned it.' },
  },
  required: ['content'],
}

const CONTENT_BLOCKS_JSON = JSON.stringify(CONTENT_BLOCKS_SCHEMA)

export function isContentBlocksSchema(schema: JsonValue): boolean {
  return schema === CONTENT_BLOCKS_SCHEMA || JSON.stringify(schema) === CONTENT_BLOCKS_JSON
}

/** The content that an MCP server returned besides the value for programs; callers that use MCP get it unchanged. */
export interface ShownContent {
  /** Absent if the value itself contains the blocks. */
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

/** Converts shown content to the form that is recorded and sent. */
export function writeShown({ content, structuredContent, meta }: ShownContent): Shown {
  return {
    ...(content === undefined ? {} : { contentJson: JSON.stringify(content) }),
    ...(structuredContent === undefined ? {} : { structuredJson: JSON.stringify(structuredContent) }),
    ...(meta === undefined ? {} : { metaJson: JSON.stringify(meta) }),
  }
}

const OWN_CODE = 'openwop:'

/**
 * Whether a tool's output may come from another party, by its catalog id: true for everything but the operator's own code, so
 * also for workflows, which pass on their steps' results (OWP-58). Models must not follow instructions in this output.
 */
export function hasUntrustedOutput(catalogId: string): boolean {
  return !catalogId.startsWith(OWN_CODE)
}

export const SOURCE_KINDS = ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension'] as const
export type SourceKind = (typeof SOURCE_KINDS)[number]

/** The longest delay that a timer supports; with a longer delay it would fire immediately. */
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
   * What a second run with the same input does. `deterministic`: gives the same result. `idempotent`: changes nothing more, so that
   * a write that a crash interrupted may run again. Default `non-deterministic`.
   */
  replay: { choices: ['deterministic', 'idempotent', 'non-deterministic'] },
  /**
   * How the tool reaches the network, as its author states. `safe-fetch`: every request goes through `ctx.fetch`. `none`: it
   * makes no requests. The server does not enforce this, because in-process code can open its own connections.
   */
  egress: { choices: ['none', 'safe-fetch', 'host-mediated', 'host-owned'] },
  /**
   * Whether a person has to approve a call before it runs: `always`, `never`, or `conditional`: unless `approvals.when` of the
   * configuration returns `false`. Default `never`, and `always` for tier `exec`.
   */
  approval: { choices: ['never', 'conditional', 'always'] },
  /** Scopes, all of which a caller must hold; the tool is hidden from other callers. Default none. */
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
  /** Bytes of a result that a model gets at once; a larger result is stored whole and shortened for the model. 0 = all. Default `results.modelBytes`. */
  modelBytes: { isWhole: true, min: 0, max: 1_000_000_000 },
  /** Members of the result that a model gets, as paths: `items.name`. Default all. Programs get the whole result. */
  project: { minItems: 1 },
  /** How a model gets the result. `toon`: lists of equal objects as a table, which takes fewer tokens. Default `json`. */
  modelFormat: { choices: ['json', 'toon'] },
  /**
   * Parameters that identify the effect of a call, for agents: `['invoice_id']`. Calls of one conversation in which these have the
   * same values are the same call. Default: all parameters, and which repetition it is.
   */
  identity: { minItems: 1 },
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

/** An upstream's statements, which do not affect this server; MCP clients use them to decide whether to ask their user. */
export interface ShownHints {
  /** The tool only adds and never deletes or overwrites; absent if it may do both. */
  readonly additive?: true
  /** The tool works only on its own data and does not use the open network; absent if it may. */
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
  /** `true`: a call needs a proven user id. `'claimed'`: an unproven user id is enough, in `ctx.claimedUserId`. */
  readonly userId?: boolean | 'claimed'
  readonly [extra: string]: unknown
}

/** Levels of a message for the caller's client, the least important first. */
export const MESSAGE_LEVELS = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] as const

export type MessageLevel = (typeof MESSAGE_LEVELS)[number]

/** One message for the log of the caller's client. */
export interface ClientMessage {
  readonly level: MessageLevel
  readonly data: JsonValue
  /** The part of the tool that wrote it. */
  readonly logger?: string | undefined
}

/** Lets a call be run again after a crash to continue work that its upstream did in the meantime. */
interface Resumption {
  /** False in the first attempt, which finds nothing. */
  readonly isRepeated: boolean
  /** The state that an earlier attempt of the same call kept. */
  find(): Promise<JsonObject | undefined>
  /**
   * Stores the state, sealed. For `forMs`, the next request for the call runs it again after a crash, so the state must enable
   * that run to avoid repeating any effect.
   */
  keep(state: JsonObject, forMs: number): Promise<void>
}

/** The second argument of `run`. */
export interface ToolContext {
  /** The call id that the caller sent or the server made; the same in every attempt. */
  readonly callId: string
  /** Id of the trace that the call belongs to, for your own logs. */
  readonly traceId: string
  /** The trace as a W3C `traceparent`, for requests of your own; `ctx.fetch` sends it. Absent without tracing. */
  readonly traceparent?: string | undefined
  /** `traceparent`, and the `tracestate` and `baggage` that the caller sent, by the names of their W3C headers. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined
  /** For sources whose upstreams continue their work if this process ends. Absent for calls that cannot continue. */
  readonly resumption?: Resumption | undefined
  /** Aborted when the call runs out of time, is cancelled, or the server stops. Pass it to everything that takes long. */
  readonly signal: AbortSignal
  /** Id, tenant and scopes of the caller's credential. */
  readonly principal: Principal
  /**
   * The proven user of the call: the subject of the caller's own token, or a user named by a credential with `users:assert`, or
   * one that `hooks.bindUser` vouches for. This user id can be trusted.
   */
  readonly userId: string | undefined
  /** The user that the caller claims to act for, proven or not. Any caller can send any name here. */
  readonly claimedUserId: string | undefined
  /** The caller's claims about that user (`context.user_info`); never proven. */
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
  /** Reports progress to the caller, if its protocol can show it: `ctx.progress(3, 10, 'third page')`. */
  progress(done: number, total?: number, message?: string): void
  /**
   * Sends a message to the log of the caller's client, if its protocol has one: `ctx.message('info', 'second page')`. Do not
   * send anything that only operators may read.
   */
  message(level: MessageLevel, data: JsonValue, logger?: string): void
  /** The lowest level of messages that the caller wants; `any` if it takes messages and set no level; absent if it takes none. */
  readonly messageLevel?: MessageLevel | 'any' | undefined
  /**
   * Asks the person behind the call a question; declined immediately if the caller's protocol cannot ask. The time until the
   * answer does not count against `timeoutMs`.
   */
  elicit(question: Elicitation): Promise<ElicitationAnswer>
  /**
   * The idempotency key to send upstream for the nth effect of this call: the same in every attempt, different for every call,
   * and without any of the caller's text.
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
  /** Name of the tool's pin. */
  readonly pin: string
}

/** How a definition that is not a tool (a prompt, a resource …) is listed. */
export interface ListedEntry {
  readonly kind: EntryKind
  /** The name that callers use: unique among the entries of its kind. */
  readonly name: string
  /** Its members as its author or its upstream wrote them, under the upstream's own name. */
  readonly definition: JsonObject
  /** Only for an entry written as code. Suggests values for an argument; `others` are the arguments that already have values. */
  complete?(argument: string, value: string, others: Readonly<Record<string, string>>): Promise<Completion>
  /** Only for a template written as code: whether it matches the address. */
  hasAddress?(uri: string): boolean
  /** Calls `onUpdated` whenever a resource changes, until the returned function is called. Absent if changes are not reported. */
  watch?(uri: string, principal: Principal, onUpdated: (uri: string) => void): () => void
}

/** `undefined` for an argument that the entry does not have. */
type Completion = readonly string[] | undefined

/** A checked definition, ready to be listed and called. Made by `prepareTool`; frozen. */
export interface Tool {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  readonly parts: ToolId
  /** Function name for models: 1 to 64 characters of `A-Za-z0-9_-`, shared by all versions. */
  readonly name: string
  /** The `name` in the definition, if other tools have it too (`shared-names.ts`). */
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
  /** Both schemas as written, with `$ref` and definitions, for protocols that support these. */
  readonly authored?: { readonly input: JsonObject; readonly output: JsonObject | null }
  readonly requirements?: ToolRequirements
  readonly policy: ToolPolicy
  /** The source of an imported tool that keeps the upstream's id, because that id does not name the source. */
  readonly keptFrom?: KeptFrom
  /** The upstream's hints that the operator accepts. */
  readonly shownHints?: ShownHints
  /** The name that its upstream gives it; absent for own tools. */
  readonly nativeName?: string
  /** Present for a prompt or another entry; lists of tools do not contain entries. */
  readonly entry?: ListedEntry
  /** Members of an MCP server's definition that change nothing here and are passed on: icons, `_meta`. */
  readonly passedOn?: JsonObject
  /** MCP clients that do not support tasks are refused. */
  readonly task?: 'required'
  /** Present for a tool that keeps state between calls. */
  readonly session?: SessionHooks
  /** Present for a tool made of other tools. */
  readonly workflow?: WorkflowParts
  /** Digest of the definition, which a claim pins. */
  readonly definitionHash: string
  /** Checks an input against the published schema; no coercion, no defaults. Compiled at the first call. */
  checkInput(input: JsonValue): readonly InputIssue[]
  /** Parses the input with the schema library, after `checkInput`; `run` gets the result. */
  parseInput(input: JsonValue): ParsedInput | Promise<ParsedInput>
  /** Checks a value against `outputSchema`; returns problems for the developer, or an empty list if it conforms. */
  checkOutput(value: JsonValue): readonly string[]
  run(input: unknown, context: StatefulContext<unknown>): unknown
}

/** The tools that a workflow calls, and properties derived from them. */
interface WorkflowParts {
  /** References to tools, as the author wrote them. */
  readonly uses: readonly string[]
  /** Policy and digest without the steps; both are derived again with the steps whenever the served tools change. */
  readonly own: { readonly policy: ToolPolicy; readonly definitionHash: string }
  /** Steps by id, with the exact versions that are called; `undefined` until all of them are served. */
  readonly steps: ReadonlyMap<string, WorkflowStep> | undefined
  /** Nesting depth: 1 for a workflow without inner workflows. */
  readonly depth: number
  /** The workflow's function, run instead of the tool's `run`, with a `WorkflowContext` that can call its steps. */
  run(input: unknown, context: object): unknown
}

export interface WorkflowStep {
  readonly id: string
  /** The names that the workflow may use, without a version: base name, function name, catalog id. */
  readonly names: readonly string[]
  readonly definitionHash: string
  /** Whether the step, or one of its own steps, may have to wait for approval. */
  readonly mayNeedApproval: boolean
  /** Whether the step, or one of its own steps, needs a stored credential. */
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

/** The approval policy that callers see; a workflow that needs none itself may need one for its steps. */
export function effectiveApproval({ policy, workflow }: Pick<Tool, 'policy' | 'workflow'>): Approval {
  if (policy.approval !== 'never') return policy.approval
  return stepsOf(workflow).some(({ mayNeedApproval }) => mayNeedApproval) ? 'conditional' : 'never'
}

/** Whether the tool, or one of its steps, needs a token or a secret; a user id is not a credential (OWP-34). */
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

/** Whether a run may have effects outside of the tool; its call is then claimed before it starts (rule 7). */
export function hasEffects(policy: Pick<ToolPolicy, 'safetyTier'>): boolean {
  return policy.safetyTier === 'write' || policy.safetyTier === 'exec'
}

/** The context of opening and closing a session's state. */
export interface SessionContext {
  readonly sessionId: string
  readonly principal: Principal
  /** The proven user, as in a call. */
  readonly userId: string | undefined
  /** The user that the caller claims to act for, proven or not. */
  readonly claimedUserId: string | undefined
  readonly log: Logger
}

/** How a stateful tool makes and releases the state that its calls share. State exists only in the process that made it. */
export interface SessionHooks<State = unknown> {
  open(context: SessionContext): State | Promise<State>
  /** Called once, after every call has ended; the tool of an interrupted call may still use the state. */
  close(state: State, context: SessionContext): void | Promise<void>
  /** How long a session without calls stays open. */
  readonly idleMs: number
  /** Whether calls outside of a session run without state. */
  readonly isOptional?: boolean
}
