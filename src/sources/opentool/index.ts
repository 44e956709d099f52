import { randomUUID } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { z } from 'zod'
import { checkCallId } from '#client/call'
import { CallFailure } from '#client/failure'
import { ForwardedCall, isOutage } from '#client/forwarded-call'
import { readText } from '#client/http'
import { OpenToolClient } from '#client/opentool'
import { endpointsOf, postCall } from '#client/opentool-exchange'
import type { ClientSettings } from '#client/options'
import { fault } from '#kernel/base/errors'
import { type JsonObject, type JsonValue, tooMuchJson } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import {
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
  serverBaseUrl,
} from '#protocols/opentool/codec-document'
import { load } from '#protocols/opentool/codec-document-read'
import { dereference } from '#protocols/opentool/codec-document-references'
import { toJsonSchema, valueSchemaOf } from '#protocols/opentool/codec-to-json-schema'
import { readWithin } from '#sources/common/answered-json'
import { isWanted, readBinding, remotePolicyOf } from '#sources/common/options'
import { callSettings, checkAddress, descriptionFetch, remoteSource } from '#sources/common/remote-source'
import type { Discovery, Invocation, OfferedTool, Source, SourceServices } from '#sources/kit/source'
import type { OpenToolSourceOptions } from './options.ts'

/**
 * The source type `opentool`: reads the functions of another OpenTool server from the server or from a document, offers them as
 * tools, and forwards calls. `source-types.ts` opens it. Invariant: a call is sent at most once (OTS-66).
 */

export function createOpenToolSource(
  key: string,
  options: OpenToolSourceOptions,
  services: SourceServices,
): Source {
  const closing = new AbortController()
  const settingsFor = (url: string): ClientSettings =>
    callSettings({ ...options, url }, services, { protocol: 'opentool', signal: closing.signal })
  const fetchDocument = descriptionFetch(services)
  const listingFor = (url: string): ClientSettings => ({
    ...settingsFor(url),
    readJson: readDocument,
    maxResponseBytes: MAX_DOCUMENT_BYTES,
    fetch: fetchDocument,
  })
  return remoteSource({ key, type: 'opentool' }, options, {
    discover: (signal) => discoverOpenTool(options, { services, listingFor, signal }),
    invoke: (invocation) => invokeOpenTool(invocation, settingsFor, options.url),
    isOutage,
    closing,
  })
}

/**
 * Calls a function without repeating the request, because only Collet servers recognise a repeated call, by its idempotency key
 * (OTS-66, rule 27).
 */
async function invokeOpenTool(
  invocation: Invocation,
  settingsFor: (url: string) => ClientSettings,
  configuredUrl: string | undefined,
): Promise<JsonValue | undefined> {
  const { nativeName, input, context } = invocation
  const binding = readBinding(BINDING, nativeName, invocation.binding)
  const settings = settingsFor(configuredUrl ?? binding.url)
  checkAddress(nativeName, binding.url, endpointsOf(settings))
  const forwarded = new ForwardedCall(settings.fetch, settings.server.origin, context.traceHeaders)
  try {
    const { result } = await postCall(
      { ...settings, fetch: forwarded.fetch },
      // The id only correlates the answer with the request (rule 4).
      { id: randomUUID(), name: binding.function, arguments: input },
      { signal: context.signal, idempotencyKey: checkCallId(context.effectKey()) },
    )
    return valueIn(result, binding)
  } catch (error) {
    context.signal.throwIfAborted()
    settings.signal?.throwIfAborted()
    throw forwarded.toToolError(error)
  }
}

interface DiscoveryContext {
  readonly services: SourceServices
  /** The client settings for reading the document. */
  readonly listingFor: (url: string) => ClientSettings
  readonly signal: AbortSignal
}

/** A document is parsed in one step, which must be short. These bounds allow about a thousand functions. */
const MAX_DOCUMENT_BYTES = 4 * 1_048_576
const DOCUMENT_BOUNDS = { maxDepth: 256, maxValues: 30_000 }

async function readDocument(text: string): Promise<JsonValue | undefined> {
  const value = readWithin(text, DOCUMENT_BOUNDS)
  // The conversion happens in a later turn.
  await new EventLoopYielder().yieldNow()
  return value
}

/** Reads the functions that the other server describes (OTS-63), or that a document describes. */
async function discoverOpenTool(
  options: OpenToolSourceOptions,
  discovering: DiscoveryContext,
): Promise<Discovery> {
  const document =
    options.document === undefined
      ? await askServer(options.url ?? '', discovering)
      : await readNamed(options.document, discovering)
  const settings = discovering.listingFor(options.url ?? serverOf(document))
  const url = endpointsOf(settings)
  const wanted = document.functions.filter(({ name }) => isWanted(name, options))
  const yielder = new EventLoopYielder()
  await yielder.yieldNow()
  const tools: OfferedTool[] = []
  for (const described of wanted) {
    if (yielder.isDue) await yielder.yieldNow()
    tools.push(offer(described, url, options))
  }
  return {
    identity: { origin: settings.server.origin, url },
    tools,
    leftOut: document.functions.map(({ name }) => name).filter((name) => !isWanted(name, options)),
    warnings: wanted
      .filter(({ stream }) => stream !== undefined)
      .map(({ name }) => `${name} can stream; only its final result is passed on.`),
  }
}

async function askServer(url: string, { listingFor, signal }: DiscoveryContext): Promise<OpenToolDocument> {
  const settings = listingFor(url)
  try {
    const document = await new OpenToolClient(settings).load({ signal })
    if (document !== null) return document
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof CallFailure)) throw error
    throw fault('upstream_failed', error.message, { cause: error })
  }
  const problem = `${endpointsOf(settings)} does not describe its functions.`
  throw fault('upstream_failed', `${problem} If you have its document, name it with \`document\`.`)
}

/** Reads the document that the operator names, from a file or an address, without sending a credential. */
async function readNamed(named: string, { services, signal }: DiscoveryContext): Promise<OpenToolDocument> {
  const url = URL.parse(named)
  const isAddress = url !== null && /^https?:$/.test(url.protocol)
  try {
    const text = isAddress
      ? await fetchText(url, services, signal)
      : await readFileText(resolve(services.folder, named), signal)
    const problem = tooMuchJson(Buffer.from(text), DOCUMENT_BOUNDS)
    if (problem !== undefined) throw fault('upstream_failed', `${named} ${problem}.`)
    return dereference(load(text, { mode: 'lenient' }))
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof OpenToolDocumentError)
      throw fault('upstream_failed', `${named} cannot be used. ${error.message}`, { cause: error })
    if (error instanceof Error && 'syscall' in error)
      throw fault('upstream_failed', `${named} cannot be read: ${error.message}`, { cause: error })
    throw error
  }
}

async function readFileText(file: string, signal: AbortSignal): Promise<string> {
  const { size } = await stat(file)
  if (size > MAX_DOCUMENT_BYTES)
    throw fault('upstream_failed', `${file} has more than ${MAX_DOCUMENT_BYTES} bytes.`)
  return await readFile(file, { encoding: 'utf8', signal })
}

async function fetchText(url: URL, services: SourceServices, signal: AbortSignal): Promise<string> {
  const response = await (services.fetchDescription ?? services.fetch)(url, {
    headers: { accept: 'application/json' },
    signal,
  })
  const text = response.ok ? await readText(response, MAX_DOCUMENT_BYTES, signal) : undefined
  if (text !== undefined) return text
  if (response.ok) throw fault('upstream_failed', `${url.href} has more than ${MAX_DOCUMENT_BYTES} bytes.`)
  await response.body?.cancel()
  throw fault('upstream_failed', `${url.origin} answers ${response.status} instead of the document.`)
}

function serverOf({ server }: OpenToolDocument): string {
  const url = server && serverBaseUrl(server)
  if (url !== undefined) return url
  throw fault(
    'upstream_failed',
    'The document does not state its server (server.url). Set `url` in the options of the source.',
  )
}

function offer(described: OpenToolFunction, url: string, options: OpenToolSourceOptions): OfferedTool {
  const { name, description, return: returned } = described
  // `null` means no return value (OTS-10), but the response is kept with the call.
  const value = options.output === 'any' ? {} : valueSchemaOf(described)
  const returnType = typeof value?.type === 'string' ? value.type : null
  const binding: OpenToolBinding = { url, function: name, returnName: returned?.name ?? null, returnType }
  return {
    nativeName: name,
    description: description === '' ? name : description,
    inputSchema: toJsonSchema(described).input,
    // This server's own OpenTool callers get the title of an output schema as the name of its value (OTS-38).
    outputSchema: returned == null || options.output === 'any' ? value : { ...value, title: returned.name },
    policy: remotePolicyOf(name, options),
    binding,
  }
}

/** Everything that decides what is sent where (rule 32), and how the response is read. */
const BINDING = z.object({
  /** Base address of the endpoints, without a trailing slash (OTS-04). */
  url: z.string(),
  function: z.string(),
  /** The member of a result that contains its value; `null` if there is none (OTS-38). */
  returnName: z.string().nullable(),
  /** The JSON Schema type of the value; `null` for any type. */
  returnType: z.string().nullable().default(null),
})

type OpenToolBinding = z.output<typeof BINDING>

/**
 * The value in a result, which is the member named by the description (OTS-38). Some servers write the name in another case,
 * use another name, or do not wrap the value. Because the function has already run, the best matching reading is used instead
 * of an error.
 */
function valueIn(result: JsonObject, { returnName, returnType }: OpenToolBinding): JsonValue {
  const names = Object.keys(result)
  if (names.length === 0) return null
  if (returnName === null) return result
  if (Object.hasOwn(result, returnName)) return result[returnName] ?? null
  const [sameName, ...furtherNames] = names.filter((name) => name.toLowerCase() === returnName.toLowerCase())
  if (sameName !== undefined && furtherNames.length === 0) return result[sameName] ?? null
  if (returnType === null || returnType === 'object') return result
  refuseReportedError(result)
  const [only, ...others] = Object.values(result)
  return only !== undefined && others.length === 0 ? only : result
}

/** Throws if the result reports a failure, as samples of the SDKs do: `{ "code": 405, "message": "…" }` (OTS-40). */
function refuseReportedError(result: JsonObject): void {
  const { code, message, ...rest } = result
  if (!Number.isInteger(code) || typeof message !== 'string' || Object.keys(rest).length > 0) return
  throw fault('tool_failed', message, {
    developerMessage: `The server returned code ${String(code)} as a result.`,
  })
}
