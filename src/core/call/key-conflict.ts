import { fault, type ToolError } from '#core/errors'

export function keyConflict(): ToolError {
  return fault(
    'key_conflict',
    'This call id was already used for a different request. Use a new call id for a new call.',
  )
}
