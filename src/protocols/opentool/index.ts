export {
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
} from './codec-convert-loss.ts'
export type { AnyFallback } from './codec-convert-lower.ts'
export { assignNames, legalName, type NameMap, type WantedName } from './codec-convert-names.ts'
export {
  type FunctionCall,
  fromOpenAiToolCall,
  type OpenAiTool,
  type OpenAiToolCall,
  toOpenAiTool,
} from './codec-convert-openai.ts'
export { type FunctionJsonSchemas, type ToJsonSchemaOptions, toJsonSchema } from './codec-convert-to-json.ts'
export {
  type DocumentOfOptions,
  documentOf,
  returnNameOf,
  type ToolLoss,
  type ToolsDocument,
} from './codec-convert-tools.ts'
export type {
  OpenToolDocument,
  OpenToolExtensions,
  OpenToolFunction,
  OpenToolInfo,
  OpenToolParameter,
  OpenToolReference,
  OpenToolReturn,
  OpenToolSchema,
  OpenToolSchemas,
  OpenToolServer,
  OpenToolType,
  OpenToolValueSchema,
} from './codec-document.ts'
export { dereference } from './codec-document-dereference.ts'
export {
  type DocumentFinding,
  type DocumentMode,
  OpenToolDocumentError,
  type TextPosition,
} from './codec-document-finding.ts'
export type { DocumentLimits } from './codec-document-limits.ts'
export { load, type SerializeOptions, serialize, validate } from './codec-document-load.ts'
export { type ReadDocument, type ReadOptions, readDocument } from './codec-document-read.ts'
export { serverBaseUrl } from './codec-document-server.ts'
export { type LoadFileOptions, loadFile } from './document-file.ts'
export {
  type FromOpenToolOptions,
  fromOpenTool,
  type OpenToolHandler,
  type OpenToolHandlerDefinition,
  type OpenToolHandlers,
} from './from-document.ts'
