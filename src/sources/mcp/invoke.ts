import { isToolError } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import type { ShownValue } from '#core/tool'
import type { CallScope } from './call-scope.ts'
import { callTool } from './call-tool.ts'
import { checkProgram } from './check-program.ts'
import type { Connection } from './connection.ts'
import { type Credentials, readCredentials } from './credentials.ts'
import { type Endpoint, isAt } from './endpoint.ts'
import { explain, isOutdated, StaleConnection } from './explain.ts'
import { type HeaderParam, headersFor } from './header-params.ts'
import type { McpOptions } from './options.ts'
import { readOutput } from './output.ts'
import { SessionHold, sessionLost } from './session-hold.ts'
import { unreachable } from './unreachable.ts'
import type { Upstream } from './upstream.ts'
import { isWireArray, isWireObject, textOf } from './wire.ts'

/** Rule 27: ours to derive, harmless to those who do not know it. */
const KEY_MEMBER = 'collet/idempotencyKey'

export interface InvokeSetting {
  readonly key: string
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly upstream: Upstream
}

/** One call, over the connection of its caller; over a new one when the upstream refused that. */
export async function invoke(
  setting: InvokeSetting,
  invocation: Invocation,
): Promise<JsonValue | ShownValue> {
  const { binding, context } = invocation
  if (!isAt(binding, setting.endpoint))
    throw unreachable({
      developerMessage:
        'The address of the source has changed since this definition was accepted: accept the change (collet pins).',
    })
  const credentials = readCredentials(binding, context)
  const over = new AbortController()
  const scope: CallScope = {
    context,
    credentials: credentials.headers,
    over: over.signal,
    retryAfterMs: undefined,
  }
  try {
    const result = await attempt(setting, invocation, { scope, credentials })
    return readOutput(result, binding.isStructured === true)
  } finally {
    over.abort()
  }
}

interface Attempt {
  readonly scope: CallScope
  readonly credentials: Credentials
}

async function attempt(
  setting: InvokeSetting,
  invocation: Invocation,
  { scope, credentials }: Attempt,
): Promise<JsonObject> {
  const { upstream } = setting
  const { context } = invocation
  if (context.session instanceof SessionHold) {
    const connection = await context.session.connect(credentials, context.signal)
    return await carry(setting, invocation, { scope, connection }).catch((error: unknown) => {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      throw sessionLost()
    })
  }
  for (let isAgain = false; ; isAgain = true) {
    const { connection, release } = await lease(upstream, { scope, credentials })
    try {
      return await carry(setting, invocation, { scope, connection })
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error
      upstream.refused(connection)
      if (isAgain) throw explain(error.cause, scope, false)
    } finally {
      release()
    }
  }
}

async function lease(upstream: Upstream, { scope, credentials }: Attempt) {
  try {
    return await upstream.leaseFor(scope.context, credentials)
  } catch (error) {
    throw isToolError(error) ? error : explain(error, scope, false)
  }
}

async function carry(
  setting: InvokeSetting,
  invocation: Invocation,
  { scope, connection }: { readonly scope: CallScope; readonly connection: Connection },
): Promise<JsonObject> {
  const { upstream } = setting
  const { nativeName, input, binding, context } = invocation
  await checkProgram(setting, connection, invocation)
  const { traceparent } = context
  const params = {
    name: nativeName,
    arguments: input,
    _meta: { [KEY_MEMBER]: context.effectKey(), ...(traceparent === undefined ? {} : { traceparent }) },
  }
  const headers = connection.isModern ? headersFor(headerParams(binding), input) : undefined
  try {
    return await callTool({
      source: setting.key,
      connection,
      scope,
      params,
      headers,
      completions: upstream.completions,
    })
  } catch (error) {
    if (isToolError(error) && isOutdated(error.cause)) upstream.outdated()
    throw error
  }
}

function headerParams({ headers }: JsonObject): readonly HeaderParam[] {
  if (!isWireArray(headers)) return []
  return headers.flatMap((entry) => {
    if (!isWireObject(entry) || !isWireArray(entry.path)) return []
    const header = textOf(entry.header)
    const path = entry.path.flatMap((name) => (typeof name === 'string' ? [name] : []))
    return header === undefined ? [] : [{ header, path }]
  })
}
