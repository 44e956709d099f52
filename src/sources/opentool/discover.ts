import { CallFailure } from '#client/call-failure'
import type { ClientSettings } from '#client/client-options'
import { OpenToolClient } from '#client/opentool-client'
import { endpointsOf } from '#client/opentool-exchange'
import { fault } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Discovery, OfferedTool } from '#core/ports/source'
import { toJsonSchema } from '#protocols/opentool/codec-convert-to-json'
import type { OpenToolDocument, OpenToolFunction } from '#protocols/opentool/codec-document'
import { isWanted, remotePolicyOf } from '#sources/common/policy-options'
import type { OpenToolBinding } from './binding.ts'
import type { OpenToolSourceOptions } from './options.ts'

/** The functions that the other server describes (OTS-63). */
export async function discoverOpenTool(
  settings: ClientSettings,
  options: OpenToolSourceOptions,
  signal: AbortSignal,
): Promise<Discovery> {
  const document = await loadDocument(settings, signal)
  const url = endpointsOf(settings)
  const wanted = document.functions.filter(({ name }) => isWanted(name, options))
  return {
    identity: { origin: settings.server.origin, url },
    tools: wanted.map((described) => offer(described, url, options)),
    warnings: wanted
      .filter(({ stream }) => stream !== undefined)
      .map(({ name }) => `${name} can stream; only its final result is passed on.`),
  }
}

async function loadDocument(settings: ClientSettings, signal: AbortSignal): Promise<OpenToolDocument> {
  try {
    const document = await new OpenToolClient(settings).load({ signal })
    if (document !== null) return document
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof CallFailure)) throw error
    throw fault('upstream_failed', error.message, { cause: error })
  }
  throw fault('upstream_failed', `${endpointsOf(settings)} does not describe its functions.`)
}

function offer(described: OpenToolFunction, url: string, options: OpenToolSourceOptions): OfferedTool {
  const { name, description, return: returned } = described
  const { input, output } = toJsonSchema(described)
  const binding: OpenToolBinding = { url, function: name, returnName: returned?.name ?? null }
  return {
    nativeName: name,
    description: description === '' ? name : description,
    inputSchema: input,
    outputSchema: returned === undefined ? null : valueSchema(output, returned.name),
    policy: remotePolicyOf(name, options),
    binding,
  }
}

function valueSchema(output: JsonObject | null, name: string): JsonObject {
  const { properties } = output ?? {}
  const value = isJsonObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined
  const widened = widen(value ?? {})
  return isJsonObject(widened) ? widened : {}
}

/**
 * OpenTool cannot say "any value": an object without members is what servers write instead (OTS-82), so a result is
 * not held to it.
 */
function widen(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  const { type, properties, items, description } = schema
  const isFree = type === 'object' && (!isJsonObject(properties) || Object.keys(properties).length === 0)
  if (isFree) return description === undefined ? {} : { description }
  return {
    ...schema,
    ...(isJsonObject(properties)
      ? {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, each]) => [name, widen(each)]),
          ),
        }
      : {}),
    ...(items === undefined ? {} : { items: widen(items) }),
  }
}
