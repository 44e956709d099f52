import type { RequestHeaders } from '#auth/authenticator'
import type { ToolError } from '#core/errors'
import type { MaybePromise } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { HttpReply, HttpRoute } from '#protocols/http-exchange'
import { messageReply } from './message-reply.ts'

/** A protocol's route, or one of the server's own, which may know callers that protocols do not. */
export interface ServerRoute extends HttpRoute {
  /** Instead of the server's authentication. */
  readonly authenticate?: (headers: RequestHeaders) => MaybePromise<Principal>
}

/** How the server's own routes refuse. */
export function refuseWithMessage(_request: unknown, error: ToolError, status: number): HttpReply {
  return messageReply(status, error.message)
}
