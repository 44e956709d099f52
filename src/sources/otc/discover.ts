import { CallFailure } from '#client/call-failure'
import type { ClientSettings } from '#client/client-options'
import { type Listing, ToolDirectory } from '#client/tool-directory'
import { joinSignals } from '#client/wait'
import { fault } from '#core/errors'
import { compareVersions, isToolVersion } from '#core/ids'
import type { JsonObject } from '#core/json'
import type { Discovery, OfferedTool } from '#core/ports/source'
import { Breather } from '#core/runtime'
import type { ToolRequirements } from '#core/tool'
import type { RemoteTool } from '#protocols/otc/codec-client'
import { isWanted, remotePolicyOf } from '#sources/common/policy-options'
import type { OtcBinding } from './binding.ts'
import type { OtcSourceOptions } from './options.ts'

/** The newest version of each tool that the other server lists. */
export async function discoverOtc(
  settings: ClientSettings,
  options: OtcSourceOptions,
  signal: AbortSignal,
): Promise<Discovery> {
  const listing = await readListing(settings, signal)
  const { server } = settings
  const warnings: string[] = []
  const breather = new Breather()
  // Reading the list was a long step already.
  await breather.breathe()
  const newest = newestOfEach(listing.tools)
  const leftOut = newest.map(({ name }) => name).filter((name) => !isWanted(name, options))
  const offered: OfferedTool[] = []
  for (const { name, tool } of newest) {
    if (breather.isDue) await breather.breathe()
    if (!isWanted(name, options)) continue
    if (isObjectSchema(tool.input)) offered.push(offer(name, tool, { settings, options, listing }))
    else warnings.push(`${tool.id} is left out: its input is no object.`)
  }
  return { identity: { origin: server.origin, url: server.base }, tools: offered, warnings, leftOut }
}

async function readListing(settings: ClientSettings, signal: AbortSignal): Promise<Listing> {
  try {
    // A directory of its own: the list is read anew, whatever is known.
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

interface NamedTool {
  /** Without its version, which changes. */
  readonly name: string
  readonly tool: RemoteTool
}

function newestOfEach(tools: readonly RemoteTool[]): readonly NamedTool[] {
  const newest = new Map<string, RemoteTool>()
  for (const tool of tools) {
    const name = nameOf(tool)
    const known = newest.get(name)
    if (known === undefined || isNewer(tool, known)) newest.set(name, tool)
  }
  return [...newest].map(([name, tool]) => ({ name, tool }))
}

function nameOf({ id }: RemoteTool): string {
  const at = id.lastIndexOf('@')
  return at > 0 && isToolVersion(id.slice(at + 1)) ? id.slice(0, at) : id
}

function isNewer(tool: RemoteTool, known: RemoteTool): boolean {
  const [left, right] = [tool, known].map(({ id }) => id.slice(id.lastIndexOf('@') + 1))
  if (left === undefined || right === undefined) return false
  return isToolVersion(left) && isToolVersion(right) && compareVersions(left, right) > 0
}

/** `{}` and schemas that say nothing of a type take any object. */
function isObjectSchema({ type }: JsonObject): boolean {
  return type === undefined || type === 'object'
}

function offer(
  name: string,
  tool: RemoteTool,
  place: { readonly settings: ClientSettings; readonly options: OtcSourceOptions; readonly listing: Listing },
): OfferedTool {
  const { settings, options, listing } = place
  const { authorization, secrets, userId } = tool.requirements
  const ours = authorization.map(({ id, scopes }) => ({ id, own: options.providers[id] ?? id, scopes }))
  const held = secrets.map(({ id }) => id).filter((id) => Object.hasOwn(options.secrets, id))
  const asked = secrets.map(({ id }) => id).filter((id) => !held.includes(id))
  const requirements: ToolRequirements = {
    ...(ours.length === 0
      ? {}
      : { authorization: ours.map(({ own, scopes }) => ({ id: own, oauth2: { scopes } })) }),
    ...(asked.length === 0 ? {} : { secrets: asked.map((id) => ({ id })) }),
    ...(userId ? { userId: true } : {}),
  }
  const binding: OtcBinding = {
    url: settings.server.base,
    toolId: tool.id,
    dialect: listing.wire.dialect,
    schemaId: listing.wire.schemaId ?? null,
    keyHeader: listing.keyHeader ?? null,
    authorization: Object.fromEntries(ours.map(({ id, own }) => [id, own])),
    secrets: asked,
    ownSecrets: held,
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
