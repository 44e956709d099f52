import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Report } from '#kernel/base/errors'
import type { JsonArray, JsonObject, JsonValue } from '#kernel/base/json'
import type {
  ListedEntry,
  PolicyDefinition,
  SessionContext,
  StatefulContext,
  Tool,
  ToolContext,
  ToolRequirements,
} from './tool.ts'

/**
 * The functions that authors call: `tool()`, `workflow()` and `content()`, with types that infer inputs and results from schemas.
 * The package exports them. `tool` and `workflow` only add types and a mark; the server checks a definition when it loads it.
 */

/** A registered symbol, so that a workflow made by another copy of this package is still recognised. */
const WORKFLOW: unique symbol = Symbol.for('collet.workflow')

export interface StepOptions {
  /** Name of this step; needed if one tool is called several times at once. Default: the tool's own name. */
  readonly step?: string
}

export type TypedTool<I extends SchemaLike, O extends SchemaLike | null> = DefinedTool & {
  readonly input: I
  readonly output: O
}

/** The input type of a step: what its schema accepts from a caller. */
export type StepInput<I> = ValueOf<I, 'input', ParametersOf<I>>

/** The result type of a step: the value as it is stored. */
export type StepResult<O> = O extends null ? null : ValueOf<O, 'input', TypeOfSchema<O>>

/**
 * Calls one of the tools in `uses` as a separate durable call. Returns its value, also if an earlier attempt of this
 * workflow obtained it; throws a `ToolError` if the call failed for good. While the step waits for a person, the workflow is
 * suspended.
 */
export interface CallStep {
  <const I extends SchemaLike, const O extends SchemaLike | null>(
    used: TypedTool<I, O>,
    input: StepInput<I>,
    options?: StepOptions,
  ): Promise<StepResult<O>>
  (used: string, input: JsonObject, options?: StepOptions): Promise<JsonValue>
}

/** The context of a workflow's `run`. It has no `fetch` or credentials, because every effect must go through `call`. */
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
    | 'message'
  > {
  readonly call: CallStep
}

/** A tool made of other tools, as its author writes it. */
export interface WorkflowDefinition<
  I extends SchemaLike = SchemaLike,
  O extends SchemaLike | null = SchemaLike | null,
> extends CommonDefinition<I, O> {
  /** Every tool that it may call: the result of `tool()`, or any name of a tool; a name without a version means the newest version. */
  readonly uses: readonly (string | DefinedTool)[]
  /** Policy of the workflow. Tier and egress are derived from `uses`; the scopes are added to those of `uses`. */
  readonly policy?: Omit<PolicyDefinition, 'safetyTier' | 'egress'>
  /**
   * May run many times for one call, from the beginning: it must make the same steps with the same inputs each time. Effects
   * outside `call` are not protected.
   */
  readonly run: (input: InputOf<I>, context: WorkflowContext) => ResultOf<O> | Promise<ResultOf<O>>
}

/** Defines a tool that is made of other tools. Like every tool, it is checked when the server loads it. */
export function workflow<
  const I extends SchemaLike,
  const O extends SchemaLike | null,
  const Id extends string = string,
>(definition: WorkflowDefinition<I, O> & { readonly id: Id }): WorkflowDefinition<I, O> & DefinedTool<Id> {
  return markTool({ ...definition, [WORKFLOW]: true as const })
}

export function isWorkflow(value: unknown): boolean {
  return typeof value === 'object' && value !== null && WORKFLOW in value && value[WORKFLOW] === true
}

/** A registered symbol, so that a tool made by another copy of this package is still found. */
const BRAND: unique symbol = Symbol.for('collet.tool')

/** The mark that `tool()` adds; a loader takes every exported value that has this mark. */
export interface DefinedTool<Id extends string = string> {
  readonly id: Id
  readonly [BRAND]: true
}

/**
 * Defines a tool. It only adds types and a mark: the definition is checked when the server loads it, so that all findings in
 * all tools are reported together.
 */
export function tool<
  const I extends SchemaLike,
  const O extends SchemaLike | null,
  S = undefined,
  const Id extends string = string,
>(definition: ToolDefinition<I, O, S> & { readonly id: Id }): ToolDefinition<I, O, S> & DefinedTool<Id> {
  return markTool(definition)
}

/** Marks a definition so that loaders find it. */
export function markTool<D extends { readonly id: string }>(definition: D): D & DefinedTool<D['id']> {
  return Object.freeze({ ...definition, [BRAND]: true as const })
}

export function isDefinedTool(value: unknown): value is DefinedTool {
  return typeof value === 'object' && value !== null && BRAND in value && value[BRAND] === true
}

/** A registered symbol, so that an entry made by another copy of this package is still recognised. */
const ENTRY: unique symbol = Symbol.for('collet.entry')

/** The members of a definition, none of which is trusted. */
export type WrittenMembers = Readonly<Record<string, unknown>>

/** How the definition of an entry becomes the definition of a tool. */
export interface EntryReader {
  /** Reports problems of the members that only the entry has; the rest is checked like a tool. */
  read(written: WrittenMembers, report: Report): ReadEntry
}

export interface ReadEntry {
  readonly tool: WrittenMembers
  /** The author's functions, part of what an approval pins. */
  readonly functions: readonly unknown[]
  list(tool: Pick<Tool, 'name' | 'inputSchema'>, report: Report): ListedEntry
}

/** Marks a definition as that of an entry, which loaders find like a tool. */
export function markEntry<D extends { readonly id: string }>(
  definition: D,
  reader: EntryReader,
): D & DefinedTool<D['id']> {
  return markTool({ ...definition, [ENTRY]: reader })
}

export function entryReader(value: unknown): EntryReader | undefined {
  return isMarked(value) ? value[ENTRY] : undefined
}

function isMarked(value: unknown): value is { readonly [ENTRY]: EntryReader } {
  return typeof value === 'object' && value !== null && ENTRY in value
}

/** A schema from a library (zod, arktype, valibot …), an object of such schemas (`{ city: z.string() }`), or plain JSON Schema. */
export type SchemaLike = StandardSchemaV1 | SchemaShape | JsonObject

interface SchemaShape {
  readonly [name: string]: StandardSchemaV1
}

/** A value before its library parses it (`input`), or after (`output`). */
type Side = 'input' | 'output'

/** The type of the values that a library's schema or a shape describes; `Plain` for any other schema. */
type ValueOf<S, At extends Side, Plain> = S extends StandardSchemaV1
  ? NonNullable<S['~standard']['types']>[At]
  : IsShape<S> extends true
    ? ShapeOf<S, At>
    : Plain

/** Members whose schema accepts `undefined` are optional. */
type ShapeOf<S, At extends Side> = Together<
  {
    -readonly [K in keyof S as undefined extends ValueOf<S[K], At, never> ? never : K]: ValueOf<
      S[K],
      At,
      never
    >
  } & {
    -readonly [K in keyof S as undefined extends ValueOf<S[K], At, never> ? K : never]?: ValueOf<
      S[K],
      At,
      never
    >
  }
>

/** Flattens an intersection, so that editors show one object type. */
type Together<T> = { [K in keyof T]: T[K] }

/** `{}` would also be an empty shape, but it means no parameters. */
type IsShape<S> = S extends SchemaShape ? (keyof S extends never ? false : true) : false

/** The input of `run`: the schema library's output type, or the type that an inline JSON Schema describes. */
export type InputOf<S> = ValueOf<S, 'output', ParametersOf<S>>

type ParametersOf<S> = S extends { readonly type: 'object'; readonly properties: unknown }
  ? TypeOfSchema<S>
  : JsonObject

/** The result of `run`: the input type of the output schema, nothing for `null`, any JSON for `{}`. */
type ResultOf<S> = S extends null
  ? // biome-ignore lint/suspicious/noConfusingVoidType: a run that returns nothing has this type
    void | null | undefined
  : StepResult<S>

/** The state of a stateful tool; `close` may be left out if there is nothing to release. */
export interface SessionDefinition<S = unknown> {
  /** Makes the state that the calls of one session share; `run` gets it as `context.session`. */
  readonly open: (context: SessionContext) => S | Promise<S>
  readonly close?: (state: Awaited<S>, context: SessionContext) => void | Promise<void>
  /** How long a session without calls stays open; 15 minutes by default. */
  readonly idleMs?: number
  /** Whether calls outside of a session run without state. By default each such call gets its own state, closed after the call. */
  readonly isOptional?: boolean
}

type ContextOf<S> = [S] extends [undefined] ? ToolContext : StatefulContext<Awaited<S>>

/** The members that tools and workflows have in common. */
interface CommonDefinition<I extends SchemaLike, O extends SchemaLike | null> {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  /** The name by which models call the tool: 1 to 64 characters of `A-Za-z0-9_-`. Default `Toolkit_Name`. */
  readonly name?: string
  /** A short name for people. */
  readonly title?: string
  /** openwop id; default `openwop:Toolkit.Name`, and `workflow:Toolkit.Name` for a workflow. */
  readonly catalogId?: string
  /** What the tool does and when to use it: models decide by this. */
  readonly description: string
  /** Words that toolsets select tools by, for example `crm`: letters, digits, `.`, `_`, `-`. */
  readonly tags?: readonly string[]
  /** Optional repetition of the version in the id; must equal it. */
  readonly version?: string
  /** The parameters: a schema of zod, arktype or valibot, an object of such schemas (`{ city: z.string() }`), JSON Schema, or `{}` for none. */
  readonly input: I
  /** Describes the JSON that `run` returns; the library does not parse it. `null` = no output, `{}` = any JSON value. */
  readonly output: O
}

/** A tool as its author writes it. */
export interface ToolDefinition<
  I extends SchemaLike = SchemaLike,
  O extends SchemaLike | null = SchemaLike | null,
  S = unknown,
> extends CommonDefinition<I, O> {
  /** Secrets, tokens and the user id that a call needs besides its input. */
  readonly requirements?: ToolRequirements
  /** What the tool may do, who may call it and whether a person has to approve. */
  readonly policy?: PolicyDefinition
  /** `required`: for a tool that takes long; MCP clients that do not support tasks are refused. By default they wait. */
  readonly task?: 'required'
  /** For a tool that keeps state between calls. The state lives in one process and is lost with it. */
  readonly session?: SessionDefinition<S>
  /** Does the work. The result is checked against `output`; throw a `ToolError` for a failure that the caller should read. */
  readonly run: (input: InputOf<I>, context: ContextOf<S>) => ResultOf<O> | Promise<ResultOf<O>>
}

/** One block of a tool's content, as in MCP. `data` is base64. */
export type ContentBlock =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image' | 'audio'; readonly data: string; readonly mimeType: string }
  | {
      readonly type: 'resource_link'
      readonly uri: string
      readonly name: string
      readonly mimeType?: string
    }
  | {
      readonly type: 'resource'
      readonly resource: { readonly uri: string; readonly mimeType?: string } & (
        | { readonly text: string }
        | { readonly blob: string }
      )
    }

/**
 * Makes the result of a tool with `output: {}` that returns text, images, audio or links. `structured` is the same content as JSON,
 * for programs.
 */
export function content(blocks: readonly ContentBlock[], structured?: JsonObject): JsonObject {
  const plain: JsonObject[] = blocks.map((block) => ({ ...block }))
  return { content: plain, ...(structured === undefined ? {} : { structuredContent: structured }) }
}

/**
 * The type of the values that an inline JSON Schema accepts, for the keywords that map onto types: `const`, `enum`, `type`,
 * `properties` with `required`, and `items`. Any other schema accepts any JSON value.
 */
type TypeOfSchema<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly type: infer T }
      ? string extends T
        ? JsonValue
        : TypeNamed<T extends readonly (infer Each)[] ? Each : T, S>
      : JsonValue

type TypeNamed<T, S> = T extends keyof NamedTypes<S> ? NamedTypes<S>[T] : JsonValue

interface NamedTypes<S> {
  string: string
  number: number
  integer: number
  boolean: boolean
  null: null
  array: ArrayType<S>
  object: ObjectType<S>
}

type ArrayType<S> = S extends { readonly prefixItems: unknown }
  ? JsonArray
  : S extends { readonly items: infer I }
    ? readonly TypeOfSchema<I>[]
    : JsonArray

type ObjectType<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P & RequiredNames<S>]: TypeOfSchema<P[K]> } & {
      readonly [K in Exclude<keyof P, RequiredNames<S>>]?: TypeOfSchema<P[K]>
    }
  : JsonObject

type RequiredNames<S> = S extends { readonly required: readonly (infer N)[] } ? N : never
