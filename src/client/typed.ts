import type { SchemaLike, StepInput, StepResult } from '#kernel/tool/define'
import type { RemoteTool } from '#protocols/otc/codec-client'
import type { CallOptions, CallResult } from './call.ts'
import type { ColletClient, TriedCall } from './client.ts'
import type { SessionOptions, ToolSession } from './server-resources.ts'

/**
 * Types of a client that knows its tools, and of a gateway: which names exist, and the input and output of each tool.
 * They are the static types of the values that `connect` and `createGateway` return; this module has no code.
 * `Tools` is the interface in the file of `collet types`, or the type of tools written as code: a list of them, or a
 * module that exports them. Invariant: at run time a typed client is an ordinary `ColletClient`.
 */

/** Tools by every name that the types know. */
type ByName<Tools> = Tools extends readonly unknown[]
  ? ById<Tools[number]>
  : Tools[keyof Tools] extends { readonly names: string }
    ? { [Name in keyof Tools as Name | OtherNames<Tools[Name]>]: Tools[Name] }
    : ById<Tools[keyof Tools]>

type OtherNames<Entry> = Entry extends { readonly names: infer Names extends string } ? Names : never

/** A tool written as code. */
interface WrittenTool {
  readonly id: string
  readonly input: SchemaLike
  readonly output: SchemaLike | null
}

type ById<Entries> = {
  [Written in Extract<Entries, WrittenTool> as Written['id'] | BaseOf<Written['id']>]: {
    input: StepInput<Written['input']>
    output: StepResult<Written['output']>
  }
}

/** An id without its version means the newest one. */
type BaseOf<Id extends string> = Id extends `${infer Base}@${string}` ? Base : never

/** Every name that a typed client accepts. The compiler would compute `keyof ByName<Tools>` again for each call. */
export type ToolName<Tools> = Tools extends readonly unknown[]
  ? IdOf<Tools[number]>
  : Tools[keyof Tools] extends { readonly names: infer Names extends string }
    ? (keyof Tools & string) | Names
    : IdOf<Tools[keyof Tools]>

type IdOf<Entries> = Entries extends WrittenTool ? Entries['id'] | BaseOf<Entries['id']> : never

/** Input of the tool with this name. */
export type ToolInput<Tools, Name extends string> = Indexed<Tools>[Name]['input']

/** Output of the tool with this name. */
export type ToolOutput<Tools, Name extends string> = Indexed<Tools>[Name]['output']

/** Indexes by name. A conditional type on `Name` would make the compiler visit all names for each call. */
type Indexed<Tools> = ByName<Tools> & {
  readonly [name: string]: { readonly input: unknown; readonly output: unknown }
}

/** The input may be left out if every parameter may. */
type CallArguments<Input> =
  Record<never, never> extends Input
    ? [input?: Input, options?: CallOptions]
    : [input: Input, options?: CallOptions]

type Untyped = 'get' | 'call' | 'tryCall' | 'openSession'

/** A client that knows the tools of its server: an unknown name is a compile error. */
export interface TypedClient<Tools> extends Omit<ColletClient, Untyped> {
  get(
    tool: ToolName<Tools>,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<RemoteTool | undefined>
  /** Calls a tool; throws `CallFailure` if it returns no value. */
  call<Name extends ToolName<Tools>>(
    tool: Name,
    ...call: CallArguments<ToolInput<Tools, Name>>
  ): Promise<CallResult<ToolOutput<Tools, Name>>>
  /** Like `call`, but returns the failure as a value. */
  tryCall<Name extends ToolName<Tools>>(
    tool: Name,
    ...call: CallArguments<ToolInput<Tools, Name>>
  ): Promise<TriedCall<ToolOutput<Tools, Name>>>
  /** Opens a session of a tool that keeps state between calls, on Collet servers. */
  openSession<Name extends ToolName<Tools>>(
    tool: Name,
    options?: SessionOptions,
  ): Promise<TypedSession<ToolInput<Tools, Name>, ToolOutput<Tools, Name>>>
}

interface TypedSession<Input, Output> extends Omit<ToolSession, 'call'> {
  call(...call: CallArguments<Input>): Promise<CallResult<Output>>
}
