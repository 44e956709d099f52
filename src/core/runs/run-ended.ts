import { fault, type ToolError } from '#core/errors'

export function runEnded(runId: string): ToolError {
  return fault('request_invalid', `Run '${runId}' has ended and takes nothing new. Use another run id.`)
}
