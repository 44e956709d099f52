import { readFile } from 'node:fs/promises'
import type { OpenToolDocument } from './codec-document.ts'
import { load, type ReadOptions } from './codec-document-read.ts'

/*
 * The public entry point `collet/protocols/opentool`: reads, validates and converts OpenTool documents, and makes tools from them.
 * Applications import it; the server imports the modules of this folder directly.
 * Invariant: every exported symbol is listed by name.
 */

export {
  type AnyFallback,
  type ConvertedInput,
  type ConvertedOutput,
  type FromInputSchemaOptions,
  type FromJsonSchemaOptions,
  type FromOutputSchemaOptions,
  fromJsonSchema,
  returnFromJsonSchema,
} from './codec-convert-from-json.ts'
export {
  type ConversionMode,
  type LossSeverity,
  SchemaConversionError,
  type SchemaLoss,
} from './codec-convert-shape.ts'
export {
  assignNames,
  type DocumentOfOptions,
  documentOf,
  legalName,
  type NameMap,
  returnNameOf,
  type ToolLoss,
  type ToolsDocument,
  type WantedName,
} from './codec-convert-tools.ts'
export {
  type DocumentFinding,
  type DocumentLimits,
  type DocumentMode,
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolExtensions,
  type OpenToolFunction,
  type OpenToolInfo,
  type OpenToolParameter,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolServer,
  type OpenToolType,
  type OpenToolValueSchema,
  serverBaseUrl,
  type TextPosition,
} from './codec-document.ts'
export {
  load,
  type ReadDocument,
  type ReadOptions,
  readDocument,
  type SerializeOptions,
  serialize,
  validate,
} from './codec-document-read.ts'
export { dereference } from './codec-document-references.ts'
export {
  type FunctionCall,
  type FunctionJsonSchemas,
  fromOpenAiToolCall,
  type OpenAiTool,
  type OpenAiToolCall,
  type ToJsonSchemaOptions,
  toJsonSchema,
  toOpenAiTool,
} from './codec-to-json-schema.ts'
export {
  type FromOpenToolOptions,
  fromOpenTool,
  type OpenToolHandler,
  type OpenToolHandlerDefinition,
  type OpenToolHandlers,
} from './from-document.ts'

export interface LoadFileOptions extends ReadOptions {
  readonly signal?: AbortSignal
}

/** `load` for a file. Rejects with the file system's error if the file cannot be read. */
export async function loadFile(path: string | URL, options: LoadFileOptions = {}): Promise<OpenToolDocument> {
  const { signal, ...reading } = options
  return load(await readFile(path, signal === undefined ? {} : { signal }), reading)
}
