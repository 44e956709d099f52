import { ToolError } from '#core/errors'
import { isJsonObject, type JsonObject } from '#core/json'
import type { HttpRequest } from '#protocols/http-exchange'
import { isExecutePath } from './codec-envelope.ts'
import { readCallKey } from './codec-request.ts'
import { type CallPath, DEFAULT_SCHEMA_ID, OXP_VERSION_HEADER, schemaFamily } from './wire.ts'

/** What an answer repeats of its request. */
export interface AnswerForm {
  /** `undefined` in the header dialect, which has no `$schema` (C-18). */
  readonly schemaId: string | undefined
  /** `undefined` as long as no call id is known (rule 6). */
  readonly callId: string | undefined
}

/** The form of an answer to a request whose body was not read: only the header can tell the dialect. */
export function unreadForm(headers: HttpRequest['headers']): AnswerForm {
  const schemaId = headers[OXP_VERSION_HEADER] === undefined ? DEFAULT_SCHEMA_ID : undefined
  return { schemaId, callId: undefined }
}

/** The same for a call, which always has an id: the header's, or a new one (rule 6, OTC-45). */
export function unreadCallForm(headers: HttpRequest['headers']): AnswerForm {
  return { ...unreadForm(headers), callId: knownCallId({}, headers) ?? crypto.randomUUID() }
}

/** The form of a refusal to a body that could not be decoded: whatever of it can be understood. */
export function refusedForm(path: CallPath, request: Pick<HttpRequest, 'headers' | 'body'>): AnswerForm {
  const { body, headers } = request
  if (!isJsonObject(body)) return unreadCallForm(headers)
  const callId = knownCallId(body, headers) ?? crypto.randomUUID()
  return { schemaId: refusedSchemaId(path, body, headers), callId }
}

function refusedSchemaId(
  path: CallPath,
  body: JsonObject,
  headers: HttpRequest['headers'],
): string | undefined {
  const { $schema: schema, request, tool_id: toolId } = body
  if (typeof schema === 'string' && schemaFamily(schema) !== undefined && toolId === undefined) return schema
  const isBare = toolId !== undefined && request === undefined
  if (isBare) return path === '/uts/tools/call' || isExecutePath(path) ? DEFAULT_SCHEMA_ID : undefined
  // T-08: an unsupported version is answered under the server's own id.
  return schema === undefined && request === undefined ? unreadForm(headers).schemaId : DEFAULT_SCHEMA_ID
}

function knownCallId(body: JsonObject, headers: HttpRequest['headers']): string | undefined {
  try {
    return readCallKey(isJsonObject(body.request) ? body.request : body, headers)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}
