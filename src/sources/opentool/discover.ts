import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { CallFailure } from '#client/call-failure'
import type { ClientSettings } from '#client/client-options'
import { OpenToolClient } from '#client/opentool-client'
import { endpointsOf } from '#client/opentool-exchange'
import { readText } from '#client/read-text'
import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import { tooMuchJson } from '#core/json-bounds'
import type { Discovery, OfferedTool, SourceServices } from '#core/ports/source'
import { Breather } from '#core/runtime'
import { toJsonSchema, valueSchemaOf } from '#protocols/opentool/codec-convert-to-json'
import {
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
  serverBaseUrl,
} from '#protocols/opentool/codec-document'
import { load } from '#protocols/opentool/codec-document-read'
import { dereference } from '#protocols/opentool/codec-document-references'
import { readWithin } from '#sources/common/answered-json'
import { isWanted, remotePolicyOf } from '#sources/common/policy-options'
import type { OpenToolBinding } from './binding.ts'
import type { OpenToolSourceOptions } from './options.ts'

export interface Discovering {
  readonly services: SourceServices
  /** How a server is asked for its document; the same for every look, so that an unchanged one is not sent again. */
  readonly listingFor: (url: string) => ClientSettings
  readonly signal: AbortSignal
}

/** A document is read in one step, which must be short for everybody else: about a thousand functions. */
export const LARGEST_DOCUMENT_BYTES = 4 * 1_048_576
const DOCUMENT_BOUNDS = { deepest: 256, mostValues: 30_000 }

export async function readDocument(text: string): Promise<JsonValue | undefined> {
  const value = readWithin(text, DOCUMENT_BOUNDS)
  // What is made of it is a step of its own.
  await new Breather().breathe()
  return value
}

/** The functions that the other server describes (OTS-63), or that a document describes for it. */
export async function discoverOpenTool(
  options: OpenToolSourceOptions,
  discovering: Discovering,
): Promise<Discovery> {
  const document =
    options.document === undefined
      ? await askServer(options.url ?? '', discovering)
      : await readNamed(options.document, discovering)
  const settings = discovering.listingFor(options.url ?? serverOf(document))
  const url = endpointsOf(settings)
  const wanted = document.functions.filter(({ name }) => isWanted(name, options))
  const breather = new Breather()
  await breather.breathe()
  const tools: OfferedTool[] = []
  for (const described of wanted) {
    if (breather.isDue) await breather.breathe()
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

async function askServer(url: string, { listingFor, signal }: Discovering): Promise<OpenToolDocument> {
  const settings = listingFor(url)
  try {
    const document = await new OpenToolClient(settings).load({ signal })
    if (document !== null) return document
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof CallFailure)) throw error
    throw fault('upstream_failed', error.message, { cause: error })
  }
  throw fault(
    'upstream_failed',
    `${endpointsOf(settings)} does not describe its functions. If you have its document, name it with \`document\`.`,
  )
}

/** A document that the operator has: from a file, or from wherever it is published. No credential goes with it. */
async function readNamed(named: string, { services, signal }: Discovering): Promise<OpenToolDocument> {
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
  if (size > LARGEST_DOCUMENT_BYTES)
    throw fault('upstream_failed', `${file} has more than ${LARGEST_DOCUMENT_BYTES} bytes.`)
  return await readFile(file, { encoding: 'utf8', signal })
}

async function fetchText(url: URL, services: SourceServices, signal: AbortSignal): Promise<string> {
  const response = await (services.fetchDescription ?? services.fetch)(url, {
    headers: { accept: 'application/json' },
    signal,
  })
  const text = response.ok ? await readText(response, LARGEST_DOCUMENT_BYTES, signal) : undefined
  if (text !== undefined) return text
  if (response.ok)
    throw fault('upstream_failed', `${url.href} has more than ${LARGEST_DOCUMENT_BYTES} bytes.`)
  await response.body?.cancel()
  throw fault('upstream_failed', `${url.origin} answers ${response.status} instead of the document.`)
}

function serverOf({ server }: OpenToolDocument): string {
  const url = server === undefined ? undefined : serverBaseUrl(server)
  if (url !== undefined) return url
  throw fault(
    'upstream_failed',
    'The document does not say where its server is (server.url). Write it as `url` into the options.',
  )
}

function offer(described: OpenToolFunction, url: string, options: OpenToolSourceOptions): OfferedTool {
  const { name, description, return: returned } = described
  // Servers answer where their document promises nothing; what they say is kept.
  const value = options.output === 'any' ? {} : (valueSchemaOf(described) ?? {})
  const binding: OpenToolBinding = {
    ...{ url, function: name, returnName: returned?.name ?? null },
    returnType: typeof value.type === 'string' ? value.type : null,
  }
  return {
    nativeName: name,
    description: description === '' ? name : description,
    inputSchema: toJsonSchema(described).input,
    outputSchema: value,
    policy: remotePolicyOf(name, options),
    binding,
  }
}
