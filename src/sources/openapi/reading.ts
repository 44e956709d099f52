import type { JsonObject } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import { isWanted } from '#sources/common/options'
import type { OfferedTool } from '#sources/kit/source'
import { dialectOf, listOperations, nameOperations, readNode } from './list-operations.ts'
import { type LoadWays, loadDocuments, type RootText } from './load.ts'
import { type Offer, type OfferContext, offerTool, Warnings } from './offer-tool.ts'
import type { Operation } from './operation.ts'
import { isReadable, type OpenapiOptions } from './options.ts'
import { SchemaDefinitions } from './schemas.ts'
import { placeKey, readSchemes } from './security.ts'

/** As many as one source can have; a larger service is for the operator to choose from. */
const MAX_TOOLS = 10_000
/** Of one definition: more than any honest service needs, and no one decides about. */
const MAX_TOOL_CHARACTERS = 1_000_000
/** Of all definitions of a source, which are kept in memory and in the store. */
const MAX_CHARACTERS = 128_000_000
/** Handed over at once: unpacking it takes a few milliseconds. */
const BATCH_CHARACTERS = 500_000

/** All that reading a document needs; nothing in it cannot go to another thread. */
export interface ReadingRequest extends RootText {
  readonly key: string
  /** Without secrets. */
  readonly options: OpenapiOptions
}

export interface ReadingWays extends Pick<LoadWays, 'read'> {
  /** Takes some of the tools, in order; the next come when it is done. */
  offer(tools: readonly OfferedTool[]): Promise<void>
}

export interface DocumentReading {
  /** Whether all of the document stands in one text. */
  readonly isAlone: boolean
  /** Operations that the operator's filters leave out. */
  readonly unwanted: readonly string[]
  readonly warnings: readonly string[]
}

/** Reads a document and offers each wanted operation as a tool. */
export async function readDocument(request: ReadingRequest, ways: ReadingWays): Promise<DocumentReading> {
  const { key, options } = request
  const warnings = new Warnings()
  const warn = (text: string): void => warnings.add(text)
  const { documents, isAlone } = await loadDocuments(request, { read: ways.read, warn })
  const dialect = dialectOf(documents)
  const operations = listOperations(documents, warn).map((node) => readNode(documents, dialect, node))
  const named = nameOperations(operations)
  const schemes = readSchemes(documents, dialect, options.security)
  warnOfStrangers(options, schemes, warn)
  const shelf = (direction: 'input' | 'output') =>
    new SchemaDefinitions({ documents, dialect, direction, warn })
  const context: OfferContext = {
    documents,
    options,
    security: { key, schemes, options: options.security },
    credentialPlaces: new Set([...schemes.values()].map(({ placement }) => placeKey(placement))),
    input: shelf('input'),
    output: shelf('output'),
  }
  const unwanted: string[] = []
  const batch = new Batch(ways)
  const yielder = new EventLoopYielder()
  for (const [nativeName, operation] of named) {
    if (yielder.isDue) await yielder.yieldNow()
    if (!isOffered(nativeName, operation, options)) {
      unwanted.push(nativeName)
      continue
    }
    const offer = offerTool(nativeName, operation, context)
    const problem = offer.ok ? await batch.add(offer.tool) : offer.problem
    if (problem !== undefined) warnings.addFor(nativeName, `Left out because ${problem}`)
    else if (offer.ok) {
      remark(offer, warn)
      for (const text of offer.warnings) warnings.addFor(nativeName, text)
    }
  }
  await batch.end()
  if (unwanted.length === named.size && named.size > 0) warn('The filters of this source leave no operation.')
  return { isAlone, unwanted, warnings: warnings.list() }
}

/** Hands tools over by the armful, and says which are too many or too large. */
class Batch {
  readonly #ways: Pick<ReadingWays, 'offer'>
  #tools: OfferedTool[] = []
  #characters = 0
  #offered = 0
  #allCharacters = 0

  constructor(ways: Pick<ReadingWays, 'offer'>) {
    this.#ways = ways
  }

  /** Why a tool is left out; `undefined` where it is not. */
  async add(tool: OfferedTool): Promise<string | undefined> {
    const characters = sizeOf(tool.inputSchema) + sizeOf(tool.outputSchema) + sizeOf(tool.binding)
    if (characters > MAX_TOOL_CHARACTERS)
      return `its definition has more than ${MAX_TOOL_CHARACTERS} characters`
    if (this.#offered >= MAX_TOOLS) return `there are more than ${MAX_TOOLS} tools; ${CHOOSE}`
    if (this.#allCharacters + characters > MAX_CHARACTERS)
      return `the definitions have more than ${MAX_CHARACTERS} characters in all; ${CHOOSE}`
    this.#tools.push(tool)
    this.#offered += 1
    this.#characters += characters
    this.#allCharacters += characters
    if (this.#characters > BATCH_CHARACTERS) await this.end()
    return undefined
  }

  async end(): Promise<void> {
    const tools = this.#tools
    this.#tools = []
    this.#characters = 0
    if (tools.length > 0) await this.#ways.offer(tools)
  }
}

const CHOOSE = 'choose with `tags`, `methods`, `include` or `exclude`'

function sizeOf(value: JsonObject | null): number {
  return JSON.stringify(value).length
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
  if (options.methods?.some((wanted) => wanted === method) === false) return false
  if (deprecated && options.deprecated === 'exclude') return false
  return isWanted(nativeName, options)
}
