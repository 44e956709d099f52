import type { z } from 'zod'
import type { ApprovalPredicate } from '#kernel/approval/approvals'
import type { Hooks } from '#kernel/base/hooks'
import type { JsonObject } from '#kernel/base/json'
import type { DefinedTool, InputOf } from '#kernel/tool/define'
import type { ProtocolConfigs } from '#protocols/list'
import type { Embed } from '#search/embedding'
import type { SOURCE_OPTIONS } from '#sources/source-types'
import type { CONFIG_SCHEMA } from './schema.ts'

/*
 * The type of a config as users write it, and `defineConfig`.
 * Users import it from `collet`; the loader checks configs against `schema.ts`.
 * Invariant: the types come from the schema, so each setting is declared once.
 */

/** The content of `collet.config.{ts,js,mjs,json}`. All keys are optional. */
export interface ColletConfig<
  Tools extends readonly ToolEntry[] = readonly ToolEntry[],
  Names extends string = string,
> extends Omit<WrittenConfig, keyof ProtocolConfigs | 'tools' | 'sources' | 'approvals' | 'hooks' | 'search'>,
    ProtocolConfigs {
  /**
   * Tools made by `tool()`, and paths or globs (relative to the config file) of files that export tools. They are
   * listed in this order; the files of one glob, and the exports of one file, by name.
   */
  readonly tools?: Tools
  /** Where further tools come from. The key is the toolkit of the tools: `<key>.<name>`. */
  readonly sources?: { readonly [key: string]: z.input<typeof SOURCE_OPTIONS> }
  readonly approvals?: ApprovalsConfig<Tools, Names>
  /** The operator's own checks; not in a JSON config. */
  readonly hooks?: Hooks
  readonly search?: SearchConfig
}

interface SearchConfig {
  /** Remember what was asked before a successful call, and use it in later searches of the same tenant. Default true. */
  readonly learn?: boolean
  /** The operator's embedding model: returns one vector for each text. Not in a JSON config. Default none. */
  readonly embed?: Embed
}

/** Returns the config unchanged. It exists for its types: predicates in `approvals.perTool` get the input types of `tools`. */
export function defineConfig<const Tools extends readonly ToolEntry[], Names extends string>(
  config: ColletConfig<Tools, Names>,
): ColletConfig<Tools, Names> {
  return config
}

type WrittenConfig = Written<typeof CONFIG_SCHEMA>
type WrittenApprovals = NonNullable<WrittenConfig['approvals']>
type WrittenTerms = NonNullable<WrittenApprovals['perTool']>[string]

interface ApprovalsConfig<Tools extends readonly ToolEntry[], Names extends string>
  extends Omit<WrittenApprovals, 'when' | 'perTool'> {
  /**
   * For tools with `policy.approval: 'conditional'`: a call runs without approval only if this function returns `false`. Without it, and if
   * it throws, these tools always need approval. Reading a member that a call does not have throws. Not in a JSON config.
   */
  readonly when?: ApprovalPredicate
  /** By `Toolkit.Name` or `Toolkit.Name@x.y.z`. */
  readonly perTool?: { readonly [Name in Names]: ToolApprovalConfig<InputNamed<Tools[number], Name>> }
}

interface ToolApprovalConfig<Input> extends Omit<WrittenTerms, 'when'> {
  /** Replaces `approvals.when` for this tool, which must have `policy.approval: 'conditional'`. Not in a JSON config. */
  readonly when?: ApprovalPredicate<Input>
}

/** A tool, or a path or glob of files that export tools. */
export type ToolEntry = DefinedTool | string

/** The input of the tool with this id, or of all versions with this name; plain JSON for tools that the config only names. */
type InputNamed<Entry, Name> = [SchemaNamed<Entry, Name>] extends [never]
  ? JsonObject
  : InputOf<SchemaNamed<Entry, Name>>

type SchemaNamed<Entry, Name> = Entry extends { readonly id: infer Id; readonly input: infer Schema }
  ? string extends Id
    ? never
    : Name extends Id | BaseOf<Id>
      ? Schema
      : never
  : never

type BaseOf<Id> = Id extends `${infer Base}@${string}` ? Base : never

/** The input type of a schema. Keeps the comments of the schema, which `z.input` would lose. */
type Written<Schema> = Schema extends Absent
  ? Written<ReturnType<Schema['unwrap']>>
  : Schema extends z.ZodPipe<infer Input>
    ? Written<Input>
    : Schema extends z.ZodObject<infer Shape>
      ? WrittenShape<Shape>
      : Schema extends z.ZodArray<infer Item>
        ? readonly Written<Item>[]
        : Schema extends z.ZodRecord<z.core.$ZodRecordKey, infer Value>
          ? { readonly [name: string]: Written<Value> }
          : Schema extends z.ZodUnion<infer Options>
            ? Written<Options[number]>
            : z.input<Schema>

type Absent = z.ZodOptional | z.ZodDefault | z.ZodPrefault
type AbsentIn<Shape> = {
  [Name in keyof Shape]: undefined extends z.input<Shape[Name]> ? Name : never
}[keyof Shape]

type WrittenShape<Shape> = {
  readonly [Name in keyof Omit<Shape, AbsentIn<Shape>>]: Written<Shape[Name & keyof Shape]>
} & { readonly [Name in keyof Pick<Shape, AbsentIn<Shape>>]?: Written<Shape[Name]> }
