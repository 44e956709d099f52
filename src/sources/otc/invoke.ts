import { CallFailure } from '#client/call-failure'
import { checkCallId, copyJson } from '#client/call-input'
import type { CallRun } from '#client/call-run'
import type { CallSession } from '#client/call-target'
import type { ClientSettings } from '#client/client-options'
import { ForwardedCall } from '#client/forwarded-call'
import { readOutcome } from '#client/read-outcome'
import { sendCall } from '#client/send-call'
import { ToolDirectory } from '#client/tool-directory'
import { joinSignals } from '#client/wait'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import { pinnedWire, type ServerWire, versionHeaders, type WireContext } from '#protocols/otc/codec-client'
import { type OtcBinding, readBinding } from './binding.ts'
import type { OtcSourceOptions } from './options.ts'

export interface OtcWorld {
  readonly settings: ClientSettings
  readonly options: OtcSourceOptions
  /** The call path that worked last (C-01). */
  readonly route: CallSession['route']
}

/**
 * Calls the accepted version of a tool. The call id is the key of this effect (rule 27), so that the other server runs
 * it once however often we ask, and requests that were lost are sent again.
 */
export async function invokeOtc(invocation: Invocation, world: OtcWorld): Promise<JsonValue> {
  const { nativeName, context } = invocation
  const binding = readBinding(nativeName, invocation.binding)
  checkAddress(nativeName, binding, world.settings)
  const forwarded = new ForwardedCall(world.settings.fetch, world.settings.server.origin, context.traceparent)
  try {
    const run = runOf(invocation, binding, {
      ...world,
      settings: { ...world.settings, fetch: forwarded.fetch },
    })
    const outcome = readOutcome(await sendCall(run), run)
    if (outcome instanceof CallFailure) throw outcome
    return outcome.value
  } catch (error) {
    context.signal.throwIfAborted()
    world.settings.signal?.throwIfAborted()
    throw forwarded.toToolError(error)
  }
}

/** Our credentials are for the address in the options; what was accepted may be another one (rule 32). */
function checkAddress(nativeName: string, { url }: OtcBinding, { server }: ClientSettings): void {
  if (url === server.base) return
  throw fault('upstream_failed', `${nativeName} was accepted for another address; ask the operator.`, {
    canRetry: true,
    developerMessage: `Accepted for ${url}, configured is ${server.base}: accept the change first.`,
  })
}

function runOf({ input, context }: Invocation, binding: OtcBinding, world: OtcWorld): CallRun {
  const { settings, route } = world
  const wire = wireOf(binding)
  return {
    session: { settings, directory: new ToolDirectory(settings), route },
    target: {
      toolId: binding.toolId,
      tool: undefined,
      wire,
      headers: async () => ({
        ...versionHeaders(wire.dialect),
        ...(await settings.credentials.headers(wire.dialect, binding.keyHeader ?? undefined)),
      }),
    },
    input: copyJson(input),
    options: {},
    signal: joinSignals(settings.signal, context.signal),
    progress: { resent: 0 },
    context: wireContext(context, binding, world),
    callId: checkCallId(context.effectKey()),
    toolRetries: 0,
    askedUser: false,
  }
}

function wireOf({ dialect, schemaId }: OtcBinding): ServerWire {
  return {
    dialect,
    ...(schemaId === null ? {} : { schemaId }),
    paths: pinnedWire(dialect).paths,
  }
}

function wireContext(
  context: Invocation['context'],
  binding: OtcBinding,
  { settings, options }: OtcWorld,
): WireContext | undefined {
  const authorization = Object.entries(binding.authorization).map(([id, own]) => ({
    id,
    token: context.token(own).reveal(),
  }))
  const secrets = [
    ...binding.secrets.map((id) => ({ id, value: context.secret(id).reveal() })),
    ...binding.ownSecrets.map((id) => ({ id, value: ownSecret(id, options) })),
  ]
  const hasCredentials = authorization.length > 0 || secrets.length > 0
  if (hasCredentials && !settings.server.mayCarryCredentials) {
    const message = `Tokens and secrets are not sent to ${settings.server.origin} over plain http; use its https address.`
    throw new CallFailure('config', message)
  }
  const userId = binding.userId ? context.userId : undefined
  if (!hasCredentials && userId === undefined) return undefined
  return { authorization, secrets, ...(userId === undefined ? {} : { userId }) }
}

function ownSecret(id: string, { secrets }: OtcSourceOptions): string {
  const value = Object.hasOwn(secrets, id) ? secrets[id] : undefined
  if (value !== undefined) return value.reveal()
  throw new CallFailure('config', `The secret ${id} is no longer in the options of this source.`)
}
