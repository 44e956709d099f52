import { fault } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { type ToJsonSchemaOptions, toJsonSchema } from './codec-convert-to-json.ts'
import type { OpenToolFunction } from './codec-document.ts'

/** A tool as the chat interfaces of OpenAI and others take it (OTS-68). */
export interface OpenAiTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    readonly parameters: JsonObject
  }
}

/** What a model answers with: arguments as JSON text. */
export interface OpenAiToolCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A call before it is put on the wire, where `arguments` is called `params` (OTS-67). */
export interface FunctionCall {
  readonly id: string
  readonly name: string
  readonly arguments: JsonObject
}

export function toOpenAiTool(written: OpenToolFunction, options: ToJsonSchemaOptions = {}): OpenAiTool {
  const { name, description } = written
  const parameters = toJsonSchema(written, options).input
  return { type: 'function', function: { name, description, parameters } }
}

/** Models leave the text empty when there are no arguments. Throws a `ToolError` that a model can act on. */
export function fromOpenAiToolCall({ id, function: called }: OpenAiToolCall): FunctionCall {
  const { name, arguments: text } = called
  const parsed = text.trim() === '' ? {} : parseJson(text)
  if (isJsonObject(parsed)) return { id, name, arguments: parsed }
  throw fault(
    'request_invalid',
    `The arguments of '${name}' are not a JSON object: write {"name": value, …}.`,
  )
}

function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
