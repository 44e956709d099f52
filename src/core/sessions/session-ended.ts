import { fault, type ToolError } from '#core/errors'

/** The same for others' sessions, closed ones and such as never were (rule 30). */
export function sessionEnded(): ToolError {
  return fault(
    'session_not_found',
    'There is no such session, or it has ended. Open another: POST /v1/sessions.',
  )
}
