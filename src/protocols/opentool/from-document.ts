import { DefinitionError, type Finding } from '#kernel/base/errors'
import { isSemanticVersion } from '#kernel/base/ids'
import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { type DefinedTool, markTool } from '#kernel/tool/define'
import type { PolicyDefinition, ToolContext, ToolRequirements } from '#kernel/tool/tool'
import { toJsonSchema, valueSchemaOf } from './codec-convert-to-json.ts'
import type { OpenToolDocument, OpenToolFunction } from './codec-document.ts'
import { load } from './codec-document-read.ts'
import { dereference } from './codec-document-references.ts'

/*
 * `fromOpenTool`: makes tools from an OpenTool document and a handler per function.
 * Exported to users from `collet/protocols/opentool`.
 * Invariant: every function has a handler and every handler a function; all problems are thrown at once.
 */

/** Implements one function of a document. Returns the bare value; the protocol sends it under the return name. */
export type OpenToolHandler = (
  input: JsonObject,
  context: ToolContext,
) => JsonValue | undefined | Promise<JsonValue | undefined>

/** A handler with facts that a document cannot express. */
export interface OpenToolHandlerDefinition {
  readonly run: OpenToolHandler
  readonly policy?: PolicyDefinition
  readonly requirements?: ToolRequirements
}

export type OpenToolHandlers = Readonly<Record<string, OpenToolHandler | OpenToolHandlerDefinition>>

export interface FromOpenToolOptions {
  /** First part of the tool ids. Default: the document's title without spaces. */
  readonly toolkit?: string
  /** Version of the tools. Default: the document's own if it is `x.y.z`, else 1.0.0. */
  readonly version?: string
  readonly policy?: PolicyDefinition
}

/**
 * Makes tools from the functions of an OpenTool document: `tools: [...fromOpenTool(document, { add: ({ a, b
 * }) => … })]`. The document is text, bytes or a value. Throws with every finding at once.
 */
export function fromOpenTool(
  document: string | Uint8Array | object,
  handlers: OpenToolHandlers,
  options: FromOpenToolOptions = {},
): readonly DefinedTool[] {
  const read = dereference(load(document, { mode: 'lenient' }))
  const { toolkit = toolkitOf(read), version = versionOf(read) } = options
  const findings = [...missingHandlers(read, handlers), ...strayHandlers(read, handlers)]
  if (findings.length > 0) throw new DefinitionError(findings)
  return read.functions.map((described) => {
    const handler = handlers[described.name]
    const { run, policy = options.policy, requirements } = asDefinition(handler)
    return markTool({
      id: `${toolkit}.${described.name.replaceAll('-', '_')}@${version}`,
      name: described.name,
      description: described.description === '' ? described.name : described.description,
      input: inputOf(described),
      output: outputOf(described),
      run,
      ...(policy === undefined ? {} : { policy }),
      ...(requirements === undefined ? {} : { requirements }),
    })
  })
}

function asDefinition(handler: OpenToolHandlers[string] | undefined): OpenToolHandlerDefinition {
  if (typeof handler === 'object') return handler
  return { run: handler ?? (() => undefined) }
}

/** Handlers are found by name, so only own members count. */
function missingHandlers({ functions }: OpenToolDocument, handlers: OpenToolHandlers): readonly Finding[] {
  return functions
    .filter(({ name }) => !Object.hasOwn(handlers, name))
    .map(({ name }) => ({
      toolId: name,
      where: 'handlers',
      problem: 'The document describes this function, but it has no handler.',
      fix: `Write ${JSON.stringify(name)}: (input, context) => … into the handlers.`,
    }))
}

function strayHandlers({ functions }: OpenToolDocument, handlers: OpenToolHandlers): readonly Finding[] {
  const names = functions.map(({ name }) => name)
  return Object.keys(handlers)
    .filter((name) => !names.includes(name))
    .map((name) => ({
      toolId: name,
      where: 'handlers',
      problem: 'The document has no such function.',
      fix: `Remove the handler, or describe the function in the document.${didYouMean(name, names)}`,
    }))
}

/** Our parameters need a description, which OpenTool makes optional; the name is the fallback. */
function inputOf(described: OpenToolFunction): JsonObject {
  const { input } = toJsonSchema(described)
  const properties: Record<string, JsonValue> = {}
  for (const [name, schema] of Object.entries(isJsonObject(input.properties) ? input.properties : {})) {
    setMember(properties, name, isJsonObject(schema) ? { description: name, ...schema } : schema)
  }
  return { ...input, properties }
}

/** The title of an output schema is its return name (OTS-38). */
function outputOf(described: OpenToolFunction): JsonObject | null {
  const value = valueSchemaOf(described)
  return value === null ? null : { ...value, title: described.return?.name ?? '' }
}

function toolkitOf({ info }: OpenToolDocument): string {
  const words = info.title.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const joined = words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
  return joined === '' ? 'OpenTool' : joined
}

function versionOf({ info }: OpenToolDocument): string {
  return isSemanticVersion(info.version) ? info.version : '1.0.0'
}
