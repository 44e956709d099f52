import { ToolError, type ToolErrorOptions } from '#core/errors'

type Told = Omit<ToolErrorOptions, 'errorNumber'>

// What OpenTool's SDKs offer to tools as exceptions, with their numbers and texts (OTS-68).

/** 405: there is no such function here. */
export function functionNotSupported(name: string, options: Told = {}): ToolError {
  return new ToolError(`Function Not Supported: ${name}`, { ...options, errorNumber: 405 })
}

/** 400: the schema accepts the arguments, the function does not. */
export function invalidArguments(problem: string, options: Told = {}): ToolError {
  return new ToolError(`Invalid Arguments: ${problem}`, { ...options, errorNumber: 400 })
}

/** 500: the agent should stop calling this tool. */
export function toolBreak(message: string, options: Told = {}): ToolError {
  return new ToolError(message, { ...options, errorNumber: 500 })
}

/** 404: the tool cannot read what it is described by. */
export function jsonParser(options: Told = {}): ToolError {
  return new ToolError('Json Parser NOT implement', { ...options, errorNumber: 404 })
}
