import type { JsonObject } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import { isUnencrypted, isWanted } from '#sources/common/options'
import type { OfferedTool } from '#sources/kit/source'
import { dialectOf, listOperations, nameOperations, readNode } from './list-operations.ts'
import { type LoadCallbacks, loadDocuments, type RootText } from './load.ts'
import { type Offer, type OfferContext, offerTool, Warnings } from './offer-tool.ts'
import type { Operation } from './operation.ts'
import type { OpenapiOptions } from './options.ts'
import { SchemaDefinitions } from './schemas.ts'
import { placeKey, readSchemes } from './security.ts'

/**
 * Makes offered tools from a whole document. `discover.ts` runs it in the serving thread or in a worker. Invariant: the number
 * and the size of the tools are bounded.
 */

/** Maximum number of tools per source. For a larger service, the operator selects operations with filters. */
const MAX_TOOLS = 10_000
/** Maximum size of one definition, because a person must be able to review it. */
const MAX_TOOL_CHARACTERS = 1_000_000
/** Maximum size of all definitions of a source, which are kept in memory and in the store. */
const MAX_CHARACTERS = 128_000_000
/** Size of a batch of tools, which takes a few milliseconds to decode in the other thread. */
const BATCH_CHARACTERS = 500_000

/** Everything that reading a document needs; it can be sent to another thread. */
export interface ReadingRequest extends RootText {
  readonly key: string
  /** The options, without secrets. */
  readonly options: OpenapiOptions
}

export interface ReadingCallbacks extends Pick<LoadCallbacks, 'read'> {
  /** Receives the tools in batches, in order; resolves when it is ready for the next batch. */
  offer(tools: readonly OfferedTool[]): Promise<void>
}

export interface DocumentReading {
  /** True if the document does not refer to other documents. */
  readonly isSelfContained: boolean
  /** Operations that the operator's filters exclude. */
  readonly unwanted: readonly string[]
  readonly warnings: readonly string[]
}

export async function readDocument(
  request: ReadingRequest,
  callbacks: ReadingCallbacks,
): Promise<DocumentReading> {
  const { key, options } = request
  const warnings = new Warnings()
  const warn = (text: string): void => warnings.add(text)
  const { documents, isSelfContained } = await loadDocuments(request, { read: callbacks.read, warn })
  const dialect = dialectOf(documents)
  const operations = listOperations(documents, warn).map((node) => readNode(documents, dialect, node))
  const named = nameOperations(operations)
  const schemes = readSchemes(documents, dialect, options.security)
  for (const name of Object.keys(options.security)) {
    // A misspelled scheme would have no effect.
    if (!schemes.has(name)) warn(`\`security.${name}\` does not name a security scheme of the document.`)
  }
  const definitions = (direction: 'input' | 'output') =>
    new SchemaDefinitions({ documents, dialect, direction, warn })
  const context: OfferContext = {
    documents,
    options,
    security: { key, schemes, options: options.security },
    credentialPlaces: new Set([...schemes.values()].map(({ placement }) => placeKey(placement))),
    input: definitions('input'),
    output: definitions('output'),
  }
  const unwanted: string[] = []
  const batch = new Batch(callbacks)
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
      warnAboutCredentials(offer, warn)
      for (const text of offer.warnings) warnings.addFor(nativeName, text)
    }
  }
  await batch.end()
  if (unwanted.length === named.size && named.size > 0)
    warn('The filters of this source exclude every operation.')
  return { isSelfContained, unwanted, warnings: warnings.list() }
}

/** Collects tools into batches, and refuses tools that are too large or exceed the limits of a source. */
class Batch {
  readonly #callbacks: Pick<ReadingCallbacks, 'offer'>
  #tools: OfferedTool[] = []
  #characters = 0
  #offered = 0
  #allCharacters = 0

  constructor(callbacks: Pick<ReadingCallbacks, 'offer'>) {
    this.#callbacks = callbacks
  }

  /** Adds a tool, or returns the reason why it is left out. */
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
    if (tools.length > 0) await this.#callbacks.offer(tools)
  }
}

const CHOOSE = 'choose with `tags`, `methods`, `include` or `exclude`'

function sizeOf(value: JsonObject | null): number {
  return JSON.stringify(value).length
}

function warnAboutCredentials(offer: Extract<Offer, { ok: true }>, warn: (text: string) => void): void {
  if (offer.hasCredentials && isUnencrypted(offer.baseUrl))
    warn(`Credentials are sent to ${new URL(offer.baseUrl).origin} without encryption.`)
  for (const [scheme, secret] of offer.standIns) {
    warn(
      `The scheme "${scheme}" is OAuth and has no provider: callers pass an access token as the secret "${secret}" until you write \`security: { "${scheme}": { provider: '…' } }\`.`,
    )
  }
}

function isOffered(name: string, { tags, method, deprecated }: Operation, options: OpenapiOptions): boolean {
  if (options.tags !== undefined && !tags.some((tag) => options.tags?.includes(tag))) return false
  if (!isWantedMethod(method, options)) return false
  if (deprecated && options.deprecated === 'exclude') return false
  return isWanted(name, options)
}

export function isWantedMethod(method: unknown, { methods }: Pick<OpenapiOptions, 'methods'>): boolean {
  return methods?.some((wanted) => wanted === method) ?? true
}
