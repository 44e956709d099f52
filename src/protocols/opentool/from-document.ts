import { DefinitionError, type Finding } from '#kernel/base/errors'
import { isSemanticVersion } from '#kernel/base/ids'
import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { type DefinedTool, markTool } from '#kernel/tool/define'
import type { PolicyDefinition, ToolContext, ToolRequirements } from '#kernel/tool/tool'
import { propertiesOf } from '#schema/keywords'
import { mapMembers, type OpenToolDocument, type OpenToolFunction } from './codec-document.ts'
import { load } from './codec-document-read.ts'
import { dereference } from './codec-document-references.ts'
import { toJsonSchema, valueSchemaOf } from './codec-to-json-schema.ts'

/*
 * `fromOpenTool`: makes tools from an OpenTool document and a handler for each function. `collet/protocols/opentool` exports it to
 * users.
 * Invariant: every function has a handler and every handler a function; all problems are thrown at once.
 */

/** Implements one function of a document. Returns the value itself; the protocol sends it under the name of the return. */
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
  const findings = checkHandlers(read, handlers)
  if (findings.length > 0) throw new DefinitionError(findings)
  return read.functions.map((described) => {
    const { name } = described
    const handler = handlers[name] ?? (() => undefined)
    const {
      run,
      policy = options.policy,
      requirements,
    }: OpenToolHandlerDefinition = typeof handler === 'object' ? handler : { run: handler }
    return markTool({
      id: `${toolkit}.${name.replaceAll('-', '_')}@${version}`,
      name,
      description: described.description === '' ? name : described.description,
      input: inputOf(described),
      output: outputOf(described),
      run,
      ...defined({ policy, requirements }),
    })
  })
}

/** Functions without a handler, and handlers without a function; only own members of `handlers` count. */
function checkHandlers({ functions }: OpenToolDocument, handlers: OpenToolHandlers): readonly Finding[] {
  const described = functions.map(({ name }) => name)
  const missing = described.filter((name) => !Object.hasOwn(handlers, name))
  const extra = Object.keys(handlers).filter((name) => !described.includes(name))
  return [
    ...missing.map((name) => ({
      toolId: name,
      where: 'handlers',
      problem: 'The document describes this function, but it has no handler.',
      fix: `Write ${JSON.stringify(name)}: (input, context) => … into the handlers.`,
    })),
    ...extra.map((name) => ({
      toolId: name,
      where: 'handlers',
      problem: 'The document has no such function.',
      fix: `Remove the handler, or describe the function in the document.${didYouMean(name, described)}`,
    })),
  ]
}

/** Collet's parameters need a description, which is optional in OpenTool. The name is the default. */
function inputOf(described: OpenToolFunction): JsonObject {
  const { input } = toJsonSchema(described)
  const properties = mapMembers(propertiesOf(input), (schema, name) =>
    isJsonObject(schema) ? { description: name, ...schema } : schema,
  )
  return { ...input, properties }
}

/** The title of an output schema is its return name (OTS-38). */
function outputOf(described: OpenToolFunction): JsonObject | null {
  const value = valueSchemaOf(described)
  return value === null ? null : { ...value, title: described.return?.name ?? '' }
}

function toolkitOf({ info }: OpenToolDocument): string {
  const words = info.title.split(/[^A-Za-z0-9]+/)
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('') || 'OpenTool'
}

function versionOf({ info }: OpenToolDocument): string {
  return isSemanticVersion(info.version) ? info.version : '1.0.0'
}
