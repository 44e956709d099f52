import { fault, type ToolError } from '#core/errors'
import { checkRunId } from '#core/ids'
import { hasControlCharacter, isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { SessionRequest } from '#core/runs/sessions'

const LONGEST_USER_ID = 1_024
const MEMBERS = ['toolId', 'runId', 'userId'] as const

/** The body of `POST /v1/sessions`; closed, so that a misspelt member is not silently ignored. */
export function decodeSessionRequest(body: JsonValue | undefined): SessionRequest {
  if (!isJsonObject(body))
    throw invalid('The body must be an object such as { "toolId": "openwop:Notebook.Run" }.')
  const unknown = Object.keys(body).find((name) => !MEMBERS.some((known) => known === name))
  if (unknown !== undefined) {
    throw invalid(`"${unknown}" is not known here. Known are: ${MEMBERS.join(', ')}.`)
  }
  const toolId = readText(body, 'toolId')
  const runId = readText(body, 'runId')
  const userId = readText(body, 'userId')
  if (userId !== undefined) checkUserId(userId)
  if (toolId === undefined) throw invalid('"toolId" is missing; GET /v1/tools lists yours.')
  return {
    toolId,
    ...(runId === undefined ? {} : { runId: checkRunId(runId) }),
    ...(userId === undefined ? {} : { userId }),
  }
}

/** What no call could name as its user opens no session. */
function checkUserId(userId: string): void {
  if (userId !== '' && userId.length <= LONGEST_USER_ID && !hasControlCharacter(userId)) return
  throw invalid(`"userId" must have 1 to ${LONGEST_USER_ID} characters, none of them a control character.`)
}

function readText(body: JsonObject, name: (typeof MEMBERS)[number]): string | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined
  if (value === undefined || typeof value === 'string') return value
  throw invalid(`"${name}" must be text.`)
}

function invalid(message: string): ToolError {
  return fault('request_invalid', message)
}
