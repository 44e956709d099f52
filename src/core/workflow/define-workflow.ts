import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type DefinedTool, markTool } from '#core/define-tool'
import type { JsonObject, JsonValue } from '#core/json'
import type { TypeOfSchema } from '#core/json-schema-type'
import type { ToolContext } from '#core/tool'
import type { InputOf, PolicyDefinition, ResultOf, SchemaLike } from '#core/tool-definition'

/** Registered, so that a workflow made by another copy of this package is still one. */
const WORKFLOW: unique symbol = Symbol.for('collet.workflow')

export interface StepOptions {
  /** Names this use; needed where one tool is called several times at once. Default: the tool's own name. */
  readonly step?: string
}

/** A tool as `tool()` gave it, with its types. */
export type TypedTool<I extends SchemaLike, O extends SchemaLike | null> = DefinedTool & {
  readonly input: I
  readonly output: O
}

/** What a step is given: what its schema takes from a caller. */
export type StepInput<I> = I extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<I>
  : I extends { readonly type: 'object'; readonly properties: unknown }
    ? TypeOfSchema<I>
    : JsonObject

/** What a step gives: the value as it is stored. */
export type StepResult<O> = O extends null
  ? null
  : O extends StandardSchemaV1
    ? StandardSchemaV1.InferInput<O>
    : TypeOfSchema<O>

/**
 * Calls one of the tools in `uses` as a durable call of its own. Gives its value, also when an earlier attempt of this
 * workflow got it; throws a `ToolError` when it failed for good. While it waits for somebody the workflow is put away.
 */
export interface CallStep {
  <const I extends SchemaLike, const O extends SchemaLike | null>(
    used: TypedTool<I, O>,
    input: StepInput<I>,
    options?: StepOptions,
  ): Promise<StepResult<O>>
  (used: string, input: JsonObject, options?: StepOptions): Promise<JsonValue>
}

/** What a workflow's `run` gets: what changes the world goes through `call`, so there is no way out of its own. */
export interface WorkflowContext
  extends Pick<
    ToolContext,
    | 'callId'
    | 'traceId'
    | 'signal'
    | 'principal'
    | 'userId'
    | 'claimedUserId'
    | 'userInfo'
    | 'log'
    | 'progress'
  > {
  readonly call: CallStep
}

/** A tool made of other tools, as its author writes it. */
export interface WorkflowDefinition<
  I extends SchemaLike = SchemaLike,
  O extends SchemaLike | null = SchemaLike | null,
> {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  readonly name?: string
  readonly title?: string
  /** openwop id; default `workflow:Toolkit.Name`. */
  readonly catalogId?: string
  readonly description: string
  readonly version?: string
  readonly input: I
  readonly output: O
  /** Every tool it may call: what `tool()` gave, or any name of it; without a version the newest one. */
  readonly uses: readonly (string | DefinedTool)[]
  /** Tier and egress are the worst of `uses`, and scopes are added to theirs. */
  readonly policy?: Omit<PolicyDefinition, 'safetyTier' | 'egress'>
  /**
   * May run many times for one call, from the beginning: it must ask for the same steps with the same inputs each time.
   * Effects outside `call` are not protected.
   */
  readonly run: (input: InputOf<I>, context: WorkflowContext) => ResultOf<O> | Promise<ResultOf<O>>
}

/** Defines a tool that is made of other tools (rule 31). Checked, like every tool, when the server loads it. */
export function workflow<const I extends SchemaLike, const O extends SchemaLike | null>(
  definition: WorkflowDefinition<I, O>,
): WorkflowDefinition<I, O> & DefinedTool {
  return markTool({ ...definition, [WORKFLOW]: true as const })
}

export function isWorkflow(value: unknown): boolean {
  return typeof value === 'object' && value !== null && WORKFLOW in value && value[WORKFLOW] === true
}
