import { z } from 'zod'
import { type CallRun, type CallSession, checkCallId, copyJson, readOutcome, sendCall } from '#client/call'
import { CallFailure } from '#client/failure'
import { ForwardedCall, isOutage } from '#client/forwarded-call'
import { joinSignals } from '#client/http'
import type { ClientSettings } from '#client/options'
import { type Listing, ToolDirectory } from '#client/tool-directory'
import { fault } from '#kernel/base/errors'
import { compareVersions, isToolVersion, withoutVersion } from '#kernel/base/ids'
import { defined, type JsonObject, type JsonValue } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { ToolRequirements } from '#kernel/tool/tool'
import {
  PINNED_WIRES,
  type RemoteTool,
  type ServerWire,
  versionHeaders,
  type WireContext,
} from '#protocols/otc/codec-client'
import { readList } from '#sources/common/answered-json'
import { isWanted, readBinding, remotePolicyOf } from '#sources/common/options'
import { callSettings, checkAddress, descriptionFetch, remoteSource } from '#sources/common/remote-source'
import type { Discovery, Invocation, OfferedTool, Source, SourceServices } from '#sources/kit/source'
import { keptId, OTC_DIALECTS, type OtcSourceOptions } from './options.ts'

/**
 * The source type `otc`: reads the tools of another Open Tool Calling server, offers them here, and forwards calls.
 * `source-types.ts` opens it. Invariant: the effect key of a call is its call id, so the other server runs it once (rule 27).
 */

const MAX_LIST_BYTES = 32 * 1_048_576

export function createOtcSource(key: string, options: OtcSourceOptions, services: SourceServices): Source {
  const { dialect } = options
  const closing = new AbortController()
  const client = defined({ protocol: 'otc', dialect, signal: closing.signal })
  const settings = callSettings(options, services, client)
  const listing = {
    ...settings,
    readJson: readList,
    maxResponseBytes: MAX_LIST_BYTES,
    fetch: descriptionFetch(services),
  }
  const upstream: OtcUpstream = { settings, options, route: { path: undefined } }
  return remoteSource({ key, type: 'otc' }, options, {
    discover: (signal) => discoverOtc(listing, options, signal),
    invoke: (invocation) => invokeOtc(invocation, upstream),
    isOutage,
    keptId: (tool) => keptId(options, tool),
    closing,
  })
}

interface OtcUpstream {
  readonly settings: ClientSettings
  readonly options: OtcSourceOptions
  /** The call path that worked last (OTC/C-01). */
  readonly route: CallSession['route']
}

/**
 * Calls the accepted version of a tool. The call id is the effect key (rule 27), so that a lost request can be sent again and the
 * other server still runs the tool only once.
 */
async function invokeOtc(invocation: Invocation, upstream: OtcUpstream): Promise<JsonValue> {
  const { nativeName, context } = invocation
  const binding = readBinding(BINDING, nativeName, invocation.binding)
  checkAddress(nativeName, binding.url, upstream.settings.server.base)
  const forwarded = new ForwardedCall(
    upstream.settings.fetch,
    upstream.settings.server.origin,
    context.traceHeaders,
  )
  try {
    const settings = { ...upstream.settings, fetch: forwarded.fetch }
    const run = runOf(invocation, binding, { ...upstream, settings })
    const outcome = readOutcome(await sendCall(run), run)
    if (outcome instanceof CallFailure) throw outcome
    return outcome.value
  } catch (error) {
    context.signal.throwIfAborted()
    upstream.settings.signal?.throwIfAborted()
    throw forwarded.toToolError(error)
  }
}

function runOf({ input, context }: Invocation, binding: OtcBinding, upstream: OtcUpstream): CallRun {
  const { settings, route } = upstream
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
    context: wireContext(context, binding, upstream),
    callId: checkCallId(context.effectKey()),
    toolRetries: 0,
    hasAskedUser: false,
  }
}

function wireOf({ dialect, schemaId }: OtcBinding): ServerWire {
  return { dialect, ...(schemaId === null ? {} : { schemaId }), paths: PINNED_WIRES[dialect].paths }
}

function wireContext(
  context: Invocation['context'],
  binding: OtcBinding,
  { settings, options }: OtcUpstream,
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
  const known = options.userId === 'claimed' ? context.claimedUserId : context.userId
  const userId = binding.userId ? known : undefined
  if (!hasCredentials && userId === undefined) return undefined
  return { authorization, secrets, ...(userId === undefined ? {} : { userId }) }
}

function ownSecret(id: string, { secrets }: OtcSourceOptions): string {
  const value = Object.hasOwn(secrets, id) ? secrets[id] : undefined
  if (value !== undefined) return value.reveal()
  throw new CallFailure('config', `The secret ${id} is no longer in the options of this source.`)
}

/** Offers the newest version of each tool that the other server lists, or every version if ids are kept. */
async function discoverOtc(
  settings: ClientSettings,
  options: OtcSourceOptions,
  signal: AbortSignal,
): Promise<Discovery> {
  const listing = await readListing(settings, signal)
  const { server } = settings
  const warnings: string[] = []
  const yielder = new EventLoopYielder()
  // Parsing the list may have taken much of this turn.
  await yielder.yieldNow()
  // Tools by their whole id if ids are kept, and otherwise by the id without its version.
  const named =
    options.ids === 'keep'
      ? new Map(listing.tools.map((tool) => [tool.id, tool]))
      : newestOfEach(listing.tools)
  const leftOut = [...named.keys()].filter((name) => !isWanted(name, options))
  const offered: OfferedTool[] = []
  for (const [name, tool] of named) {
    if (yielder.isDue) await yielder.yieldNow()
    if (!isWanted(name, options)) continue
    const problem = problemOf(name, tool, options)
    if (problem === undefined) offered.push(offer(name, tool, { settings, options, listing }))
    else warnings.push(`${tool.id} is left out: ${problem}`)
  }
  return { identity: { origin: server.origin, url: server.base }, tools: offered, warnings, leftOut }
}

async function readListing(settings: ClientSettings, signal: AbortSignal): Promise<Listing> {
  try {
    // A new directory reads the list again.
    return await new ToolDirectory({ ...settings, signal: joinSignals(settings.signal, signal) }).refresh(
      signal,
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof CallFailure)) throw error
    throw fault('upstream_failed', error.message, {
      developerMessage: error.developerMessage ?? error.message,
      cause: error,
    })
  }
}

function newestOfEach(tools: readonly RemoteTool[]): ReadonlyMap<string, RemoteTool> {
  const newest = new Map<string, RemoteTool>()
  for (const tool of tools) {
    const name = withoutVersion(tool.id)
    const known = newest.get(name)
    if (known === undefined || isNewer(tool, known)) newest.set(name, tool)
  }
  return newest
}

function problemOf(name: string, tool: RemoteTool, options: OtcSourceOptions): string | undefined {
  // A schema without a type, such as `{}`, accepts any object.
  const { type = 'object' } = tool.input
  if (type !== 'object') return 'its input is not an object.'
  if (options.ids !== 'keep' || keptId(options, { nativeName: name }) !== undefined) return undefined
  return 'with `ids: "keep"`, an id must have the form Toolkit.Name@x.y.z, with letters, digits and "_".'
}

function isNewer(tool: RemoteTool, known: RemoteTool): boolean {
  const [left, right] = [tool, known].map(({ id }) => id.slice(id.lastIndexOf('@') + 1))
  if (left === undefined || right === undefined) return false
  return isToolVersion(left) && isToolVersion(right) && compareVersions(left, right) > 0
}

function offer(
  name: string,
  tool: RemoteTool,
  about: { readonly settings: ClientSettings; readonly options: OtcSourceOptions; readonly listing: Listing },
): OfferedTool {
  const { settings, options, listing } = about
  const { authorization, secrets, userId } = tool.requirements
  const ours = authorization.map(({ id, scopes }) => ({ id, own: options.providers[id] ?? id, scopes }))
  const ownSecrets = secrets.map(({ id }) => id).filter((id) => Object.hasOwn(options.secrets, id))
  const requested = secrets.map(({ id }) => id).filter((id) => !ownSecrets.includes(id))
  const requirements: ToolRequirements = {
    ...(ours.length > 0 && {
      authorization: ours.map(({ own, scopes }) => ({ id: own, oauth2: { scopes } })),
    }),
    ...(requested.length > 0 && { secrets: requested.map((id) => ({ id })) }),
    ...(userId && { userId: options.userId ?? true }),
  }
  const binding: OtcBinding = {
    url: settings.server.base,
    toolId: tool.id,
    dialect: listing.wire.dialect,
    schemaId: listing.wire.schemaId ?? null,
    keyHeader: listing.keyHeader ?? null,
    authorization: Object.fromEntries(ours.map(({ id, own }) => [id, own])),
    secrets: requested,
    ownSecrets,
    userId,
  }
  return {
    nativeName: name,
    description: tool.description === '' ? tool.name : tool.description,
    inputSchema: { type: 'object', ...tool.input },
    outputSchema: outputOf(tool),
    ...(Object.keys(requirements).length === 0 ? {} : { requirements }),
    policy: remotePolicyOf(name, options),
    binding,
  }
}

function outputOf({ output }: RemoteTool): JsonObject | null {
  if (output === 'none') return null
  return output === 'any' ? {} : output
}

/** Everything that decides what is sent where, except values of credentials (rule 32). */
const BINDING = z.object({
  /** Base address, without a trailing slash. */
  url: z.string(),
  /** The exact id with its version, so that calls run the accepted definition. */
  toolId: z.string(),
  dialect: z.enum(OTC_DIALECTS),
  schemaId: z.string().nullable(),
  /** The header for this server's API key, if it is not the default header. */
  keyHeader: z.enum(['OXP-API-Key', 'OTC-API-Key', 'X-API-Key']).nullable(),
  /** For tokens from callers: the other server's name of each authorization, and this server's name for it. */
  authorization: z.record(z.string(), z.string()),
  /** Secrets that come with the call. */
  secrets: z.array(z.string()),
  /** Secrets from the options of the source. */
  ownSecrets: z.array(z.string()),
  userId: z.boolean(),
})

type OtcBinding = z.output<typeof BINDING>
