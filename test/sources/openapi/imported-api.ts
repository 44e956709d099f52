import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGuardedFetch } from '#egress/guarded-fetch'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { StatefulContext } from '#kernel/tool/tool'
import { plainValue } from '#kernel/tool/tool'
import type { Discovery, OfferedTool, Source } from '#sources/kit/source'
import { createOpenapiSource } from '#sources/openapi/index'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'

export const SIGNAL = new AbortController().signal

export interface CallOptions {
  readonly secrets?: Readonly<Record<string, string>>
  readonly tokens?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** A source whose egress reaches only the named hosts of this machine. */
export function openSource(
  options: object,
  { allow = [], folder = '/' }: { allow?: string[]; folder?: string } = {},
) {
  const fetch = createGuardedFetch({ allow, timeoutMs: 10_000 })
  const parsed = OPENAPI_OPTIONS.parse({ type: 'openapi', ...options })
  const source = createOpenapiSource('api', parsed, {
    fetch,
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
    folder,
  })
  return { source, close: () => fetch.close() }
}

export interface ImportedApi {
  readonly source: ReturnType<typeof createOpenapiSource>
  readonly discovery: Discovery
  tool(nativeName: string): OfferedTool
  call(nativeName: string, input: JsonObject, options?: CallOptions): Promise<JsonValue | undefined>
  close(): Promise<void>
}

/** Imports a document from a separate file; missing members are filled in. */
export async function importApi(
  document: object,
  options: object = {},
  allow: string[] = [],
): Promise<ImportedApi> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-openapi-'))
  const whole = 'swagger' in document ? document : { openapi: '3.0.3', ...document }
  writeFileSync(join(folder, 'api.json'), JSON.stringify({ info: { title: 'T', version: '1' }, ...whole }))
  const { source, close } = openSource({ file: 'api.json', ...options }, { allow, folder })
  const end = async (): Promise<void> => {
    rmSync(folder, { recursive: true })
    await close()
  }
  const discovery = await source.discover(SIGNAL).catch(async (error: unknown) => {
    await end()
    throw error
  })
  return {
    source,
    discovery,
    tool: (nativeName) => toolOf(discovery, nativeName),
    call: (nativeName, input, callOptions) => call(source, toolOf(discovery, nativeName), input, callOptions),
    close: end,
  }
}

export function toolOf({ tools }: Discovery, nativeName: string): OfferedTool {
  const found = tools.find((tool) => tool.nativeName === nativeName)
  if (found === undefined)
    throw new Error(`no ${nativeName} among ${tools.map((tool) => tool.nativeName).join(', ')}`)
  return found
}

/** Calls a tool by its binding, as a store returns it. */
export async function call(
  source: Source,
  tool: OfferedTool,
  input: JsonObject,
  options: CallOptions = {},
): Promise<JsonValue | undefined> {
  const binding: JsonObject = JSON.parse(JSON.stringify(tool.binding))
  const context = contextOf(options)
  return plainValue(await source.invoke({ nativeName: tool.nativeName, binding, input, context }))
}

function contextOf({ secrets = {}, tokens = {}, signal = SIGNAL }: CallOptions): StatefulContext<unknown> {
  return {
    callId: 'call-1',
    traceId: '',
    signal,
    principal: { id: 'key:tests', tenant: 'default', scopes: [] },
    userId: undefined,
    claimedUserId: undefined,
    userInfo: undefined,
    token: (id) => credential(tokens, id),
    secret: (id) => credential(secrets, id),
    fetch: () => Promise.reject(new Error('a source uses its own egress')),
    log: SILENT_LOGGER,
    progress: () => undefined,
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: (ordinal = 0) => `effect-key-${ordinal}`,
    session: undefined,
  }
}

function credential(given: Readonly<Record<string, string>>, id: string): Secret {
  const text = Object.hasOwn(given, id) ? given[id] : undefined
  if (text === undefined) throw new Error(`the credential ${id} was not declared`)
  return new Secret(text)
}
