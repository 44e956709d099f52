import { ToolError } from '#core/errors'
import { isJsonObject, type JsonObject } from '#core/json'
import type { HttpRequest } from '#protocols/http-exchange'
import { withoutNulls } from './codec-context.ts'
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

/** What the operator chose about answers. */
export interface Answering {
  /** `$schema` where the request names no version (C-16). */
  readonly defaultSchema?: string
}

/** The form of an answer to a request whose body was not read: only the header can tell the dialect. */
export function unreadForm(
  headers: HttpRequest['headers'],
  { defaultSchema = DEFAULT_SCHEMA_ID }: Answering,
): AnswerForm {
  const schemaId = headers[OXP_VERSION_HEADER] === undefined ? defaultSchema : undefined
  return { schemaId, callId: undefined }
}

/** The same for a call, which always has an id: the header's, or a new one (rule 6, OTC-45). */
export function unreadCallForm(headers: HttpRequest['headers'], answering: Answering): AnswerForm {
  return { ...unreadForm(headers, answering), callId: knownCallId({}, headers) ?? crypto.randomUUID() }
}

/** The form of a refusal to a body that could not be decoded: whatever of it can be understood. */
export function refusedForm(
  path: CallPath,
  request: Pick<HttpRequest, 'headers' | 'body'>,
  answering: Answering,
): AnswerForm {
  const { body, headers } = request
  if (!isJsonObject(body)) return unreadCallForm(headers, answering)
  const callId = knownCallId(body, headers) ?? crypto.randomUUID()
  return { schemaId: refusedSchemaId(path, { body, headers }, answering), callId }
}

function refusedSchemaId(
  path: CallPath,
  { body, headers }: { readonly body: JsonObject; readonly headers: HttpRequest['headers'] },
  { defaultSchema = DEFAULT_SCHEMA_ID }: Answering,
): string | undefined {
  const { $schema: schema, request, tool_id: toolId } = withoutNulls(body)
  if (typeof schema === 'string' && schemaFamily(schema) !== undefined && toolId === undefined) return schema
  const isBare = toolId !== undefined && request === undefined
  if (isBare) return path === '/uts/tools/call' || isExecutePath(path) ? defaultSchema : undefined
  // T-08: an unsupported version is answered under the server's own id.
  return schema === undefined && request === undefined
    ? unreadForm(headers, { defaultSchema }).schemaId
    : defaultSchema
}

function knownCallId(body: JsonObject, headers: HttpRequest['headers']): string | undefined {
  try {
    return readCallKey(withoutNulls(isJsonObject(body.request) ? body.request : body), headers)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}
