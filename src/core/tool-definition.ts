import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JsonObject } from './json.ts'
import type { TypeOfSchema } from './json-schema-type.ts'
import type { SessionContext } from './sessions/session-context.ts'
import type {
  Approval,
  Egress,
  Hint,
  ReplayPolicy,
  SafetyTier,
  StatefulContext,
  ToolContext,
  ToolRequirements,
} from './tool.ts'

/** A Standard Schema that can give JSON Schema, or plain JSON Schema 2020-12. */
export type SchemaLike = StandardSchemaV1 | JsonObject

/** What `run` receives: the schema library's output type, or the type a JSON Schema written in place describes. */
export type InputOf<S> = S extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<S>
  : S extends { readonly type: 'object'; readonly properties: unknown }
    ? TypeOfSchema<S>
    : JsonObject

/** What `run` must give: what goes on the wire for the output schema, nothing for `null`, any JSON for `{}`. */
export type ResultOf<S> = S extends null
  ? // biome-ignore lint/suspicious/noConfusingVoidType: a run that returns nothing has this type
    void | null | undefined
  : S extends StandardSchemaV1
    ? StandardSchemaV1.InferInput<S>
    : TypeOfSchema<S>

export interface PolicyDefinition {
  readonly safetyTier?: SafetyTier
  readonly replay?: ReplayPolicy
  readonly egress?: Egress
  readonly approval?: Approval
  readonly scopes?: readonly string[]
  /** Whose tool it is: for callers of every other tenant there is no such tool. Default: everybody's. */
  readonly tenants?: readonly string[]
  readonly timeoutMs?: number
  readonly rerunWindowMs?: number
  readonly costHint?: Hint
  readonly latencyHint?: Hint
  /** What one run takes from budgets that count cost; default 1. */
  readonly cost?: number
}

/** What a stateful tool says about its state; `close` may be left out when there is nothing to end. */
export interface SessionDefinition<S = unknown> {
  /** Makes the state that the calls of one session share; `run` gets it as `context.session`. */
  readonly open: (context: SessionContext) => S | Promise<S>
  readonly close?: (state: Awaited<S>, context: SessionContext) => void | Promise<void>
  /** How long a session without calls stays open; 15 minutes unless told. */
  readonly idleMs?: number
  /**
   * Whether calls outside of a session run without state. Unless told, each of them gets state of its own, which is let
   * go after it.
   */
  readonly isOptional?: boolean
}

/** What `run` gets: the state too, when there is any. */
export type ContextOf<S> = [S] extends [undefined] ? ToolContext : StatefulContext<Awaited<S>>

/** A tool as its author writes it. */
export interface ToolDefinition<
  I extends SchemaLike = SchemaLike,
  O extends SchemaLike | null = SchemaLike | null,
  S = unknown,
> {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  /** Function name for models; default `Toolkit_Name`. */
  readonly name?: string
  readonly title?: string
  /** openwop id; default `openwop:Toolkit.Name`. */
  readonly catalogId?: string
  readonly description: string
  /** Optional repetition of the id's version; must agree with it. */
  readonly version?: string
  readonly input: I
  /**
   * Describes the JSON that `run` returns and that is sent as it is; the library does not run on it.
   * `null` = no output, `{}` = any JSON value.
   */
  readonly output: O
  readonly requirements?: ToolRequirements
  readonly policy?: PolicyDefinition
  /** For a tool that keeps state between calls. The state lives in one process and is lost with it. */
  readonly session?: SessionDefinition<S>
  readonly run: (input: InputOf<I>, context: ContextOf<S>) => ResultOf<O> | Promise<ResultOf<O>>
}
