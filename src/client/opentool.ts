export {
  type FunctionCall,
  fromOpenAiToolCall,
  type OpenAiTool,
  type OpenAiToolCall,
  toOpenAiTool,
} from '#protocols/opentool/codec-convert-to-json'
export type {
  OpenToolDocument,
  OpenToolFunction,
  OpenToolParameter,
  OpenToolReturn,
  OpenToolSchema,
} from '#protocols/opentool/codec-document'
export { connectOpenTool as connect, type OpenToolAddress, type OpenToolClient } from './opentool-client.ts'
export { exceptionOf, OpenToolException } from './opentool-exception.ts'
export type { OpenToolCallOptions } from './opentool-exchange.ts'
export {
  errorInResult,
  functionCallFromJson,
  functionCallToJson,
  type ToolReturn,
  toolReturnFromJson,
  toolReturnToJson,
} from './opentool-models.ts'
export type { StreamedResult } from './opentool-stream.ts'
