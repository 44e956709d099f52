import { setImmediate } from 'node:timers/promises'
import type { Discovery, OfferedTool } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import { isWanted } from '#sources/common/policy-options'
import { shownAddress } from '#sources/common/shown-address'
import type { Documents } from './documents.ts'
import { dialectOf, listOperations, readPlace } from './list-operations.ts'
import { loadDocuments } from './load-documents.ts'
import { type Offer, type OfferContext, offerTool } from './offer-tool.ts'
import type { Operation } from './operation.ts'
import { nameOperations } from './operation-names.ts'
import { isReadable, type OpenapiOptions } from './options.ts'
import { SchemaShelf } from './schema-shelf.ts'
import { readSchemes } from './security-schemes.ts'
import { Warnings } from './warnings.ts'

/** Calls of others go on between so many operations of a long document. */
const OPERATIONS_AT_ONCE = 50

export interface DiscoverRequest {
  readonly key: string
  readonly options: OpenapiOptions
  readonly services: SourceServices
  readonly signal: AbortSignal
}

/** What was read, and from which text: the same text need not be read into tools again. */
export interface Discovered {
  readonly digest: string | undefined
  readonly discovery: Discovery
  /** Operations that the operator's filters leave out. */
  readonly unwanted: ReadonlySet<string>
}

/** Reads the document and offers each wanted operation as a tool. */
export async function discover(request: DiscoverRequest, known: Discovered | undefined): Promise<Discovered> {
  const warnings = new Warnings()
  const loaded = await loadDocuments(request, known, (text) => warnings.add(text))
  if (!('documents' in loaded)) return loaded
  const { digest, documents } = loaded
  return { digest, ...(await offerTools(documents, request, warnings)) }
}

async function offerTools(
  documents: Documents,
  { key, options, signal }: DiscoverRequest,
  warnings: Warnings,
): Promise<Omit<Discovered, 'digest'>> {
  const warn = (text: string): void => warnings.add(text)
  const dialect = dialectOf(documents)
  const operations = listOperations(documents, warn).map((place) => readPlace(documents, dialect, place))
  const named = nameOperations(operations)
  const schemes = readSchemes(documents, dialect, options.security)
  warnOfStrangers(options, schemes, warn)
  const shelf = (direction: 'input' | 'output') => new SchemaShelf({ documents, dialect, direction, warn })
  const context: OfferContext = {
    documents,
    options,
    security: { key, schemes, options: options.security },
    input: shelf('input'),
    output: shelf('output'),
  }
  const tools: OfferedTool[] = []
  const unwanted = new Set<string>()
  let seen = 0
  for (const [nativeName, operation] of named) {
    if (!isOffered(nativeName, operation, options)) {
      unwanted.add(nativeName)
      continue
    }
    const offer = offerTool(nativeName, operation, context)
    if (offer.ok) {
      tools.push(offer.tool)
      remark(offer, warn)
    } else warnings.leaveOut(nativeName, offer.problem)
    seen += 1
    if (seen % OPERATIONS_AT_ONCE === 0) {
      await setImmediate()
      signal.throwIfAborted()
    }
  }
  if (seen === 0 && named.size > 0) warn('The filters of this source leave no operation.')
  const identity = { document: options.url === undefined ? (options.file ?? '') : shownAddress(options.url) }
  return { discovery: { identity, tools, warnings: warnings.list(), leftOut: [...unwanted] }, unwanted }
}

/** A misspelled name would change nothing, and nobody would know. */
function warnOfStrangers(
  { security }: OpenapiOptions,
  schemes: ReadonlyMap<string, unknown>,
  warn: (text: string) => void,
): void {
  for (const name of Object.keys(security)) {
    if (!schemes.has(name)) warn(`\`security.${name}\` names no security scheme of the document.`)
  }
}

/** What an operator should know about the credentials of a tool. */
function remark(offer: Extract<Offer, { ok: true }>, warn: (text: string) => void): void {
  if (offer.hasCredentials && isReadable(offer.baseUrl))
    warn(`Credentials travel to ${new URL(offer.baseUrl).origin} without encryption.`)
  for (const [scheme, secret] of offer.standIns) {
    warn(
      `The scheme "${scheme}" is OAuth and has no provider: callers give an access token as the secret "${secret}" until you write \`security: { "${scheme}": { provider: '…' } }\`.`,
    )
  }
}

/** What the operator's filters leave. */
function isOffered(
  nativeName: string,
  { tags, method, deprecated }: Operation,
  options: OpenapiOptions,
): boolean {
  if (options.tags !== undefined && !tags.some((tag) => options.tags?.includes(tag))) return false
  if (!isWantedMethod(method, options)) return false
  if (deprecated && options.deprecated === 'exclude') return false
  return isWanted(nativeName, options)
}

/** `method` may come from a pin of before. */
export function isWantedMethod(method: unknown, { methods }: OpenapiOptions): boolean {
  return methods?.some((wanted) => wanted === method) ?? true
}
