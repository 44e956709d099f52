import type { Report } from '#kernel/base/errors'
import { describeValue, isJsonObject, isRecord, type JsonObject, type JsonValue } from '#kernel/base/json'
import { checkKeys, isFunction } from '#kernel/tool/checks'
import {
  type ContentBlock,
  type DefinedTool,
  type EntryReader,
  type InputOf,
  markEntry,
  type SchemaLike,
} from '#kernel/tool/define'
import type { ToolContext } from '#kernel/tool/tool'
import {
  COMMON_KEYS,
  type Complete,
  commonMembers,
  type EntryDefinition,
  listedMembers,
  readCompletion,
} from './entry-definition.ts'

/**
 * `prompt()`: a prompt that MCP clients offer to their users, written as code. The package exports it, and loaders find
 * prompts in the same way as tools.
 * Invariant: getting a prompt is a call like that of a tool, with the same checks, context, limits and journal (MCP-130).
 */

/** One message of a prompt. A string means one text block. */
export interface PromptMessage {
  readonly role: 'user' | 'assistant'
  readonly content: string | ContentBlock
}

/** A string means one message of the user. */
export type PromptResult =
  | string
  | readonly PromptMessage[]
  | { readonly description?: string; readonly messages: string | readonly PromptMessage[] }

/** A prompt as its author writes it. */
export interface PromptDefinition<I extends SchemaLike = SchemaLike> extends EntryDefinition {
  /** The arguments, all of them strings: an object of schemas (`{ city: z.string() }`) or another schema. Default none. */
  readonly input?: I
  /** Suggests values for arguments while a user types. An argument with a fixed list of values (`z.enum`) needs no function. */
  readonly complete?: { readonly [Name in keyof InputOf<I>]?: Complete }
  /** Makes the messages. Throw a `ToolError` for a failure that the user should read. */
  readonly run: (args: InputOf<I>, context: ToolContext) => PromptResult | Promise<PromptResult>
}

type NoArguments = Readonly<Record<never, never>>

/** Defines a prompt. It only adds types and a mark: everything is checked when the server loads it. */
export function prompt<const I extends SchemaLike = NoArguments, const Id extends string = string>(
  definition: PromptDefinition<I> & { readonly id: Id },
): PromptDefinition<I> & DefinedTool<Id> {
  return markEntry(definition, READER)
}

const KEYS = Object.keys({ ...COMMON_KEYS, input: true, complete: true, run: true } satisfies Record<
  keyof PromptDefinition,
  true
>)

const RESULT: JsonObject = {
  type: 'object',
  description: 'The messages of the prompt.',
  properties: {
    description: { type: 'string' },
    messages: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          role: { enum: ['user', 'assistant'] },
          content: { type: 'object', properties: { type: { type: 'string' } }, required: ['type'] },
        },
        required: ['role', 'content'],
      },
    },
  },
  required: ['messages'],
}

type Run = (args: unknown, context: unknown) => unknown

const READER: EntryReader = {
  read(written, report) {
    checkKeys(written, KEYS, '', report)
    const { input = {}, complete, run } = written
    const made = isFunction<Run>(run) ? run.bind(written) : undefined
    if (made === undefined)
      report('run', `Is ${describeValue(run)}.`, 'Write a function: `run: (args, context) => …`.')
    const tool = {
      ...commonMembers(written, report),
      input,
      output: RESULT,
      run: async (args: unknown, context: unknown) => toResult(await made?.(args, context)),
    }
    return {
      tool,
      functions: [run, ...(isRecord(complete) ? Object.values(complete) : [])],
      list({ name, inputSchema }, findings) {
        const args = readArguments(inputSchema, findings)
        const choices = new Map(args.map((argument) => [argument.name, argument.choices]))
        const shown = args.map(({ choices: _choices, ...argument }) => argument)
        return {
          kind: 'prompt',
          name,
          definition: {
            ...listedMembers(written, findings),
            ...(shown.length === 0 ? {} : { arguments: shown }),
          },
          complete: readCompletion(complete, choices, findings),
        }
      },
    }
  },
}

interface Argument {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly required: boolean
  /** The values that its schema lists. */
  readonly choices: readonly string[] | undefined
}

/** The protocol sends arguments as strings (MCP-131). */
function readArguments({ properties = {}, required = [] }: JsonObject, report: Report) {
  const named = isJsonObject(properties) ? Object.entries(properties) : []
  return named.map(([name, schema]): Argument => {
    const { type, title, description, ...rest } = isJsonObject(schema) ? schema : {}
    const choices = choicesOf(rest)
    if (type !== 'string' && choices === undefined)
      report(
        `input/properties/${name}`,
        'Is not a string. Clients send every argument of a prompt as a string.',
        'Write `z.string()` or `z.enum([…])`, and convert the string in `run`.',
      )
    return {
      name,
      ...(typeof title === 'string' ? { title } : {}),
      ...(typeof description === 'string' ? { description } : {}),
      required: Array.isArray(required) && required.includes(name),
      choices,
    }
  })
}

function choicesOf({ enum: listed, const: only }: JsonObject): readonly string[] | undefined {
  const values: readonly JsonValue[] = Array.isArray(listed) ? listed : only === undefined ? [] : [only]
  const texts = values.filter((value) => typeof value === 'string')
  return texts.length > 0 && texts.length === values.length ? texts : undefined
}

/** The result in the form of the protocol. A result that cannot be converted is returned unchanged and fails the output check. */
function toResult(given: unknown): unknown {
  if (typeof given === 'string' || Array.isArray(given)) return { messages: toMessages(given) }
  if (!isRecord(given)) return given
  const { description, messages, ...others } = given
  return { ...others, ...(description === undefined ? {} : { description }), messages: toMessages(messages) }
}

function toMessages(given: unknown): unknown {
  if (typeof given === 'string') return [{ role: 'user', content: textBlock(given) }]
  return Array.isArray(given) ? given.map(toMessage) : given
}

function toMessage(given: unknown): unknown {
  return isRecord(given) && typeof given.content === 'string'
    ? { ...given, content: textBlock(given.content) }
    : given
}

function textBlock(text: string): JsonObject {
  return { type: 'text', text }
}
