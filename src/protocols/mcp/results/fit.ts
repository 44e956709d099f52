import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallError, Shown, Success } from '#kernel/call/call'
import type { Revision } from '#protocols/mcp/wire'
import { parseJsonText } from '#results/paths'
import { project } from '#results/project'
import { handleOf } from '#results/recorded'
import { byteLength, type LeftOut, shapeValue } from '#results/shape'
import { MAX_WORDS_BYTES, placesText, shortList, valueText } from '#results/words'
import { contentParts, type ShownTool, shapeOf, structuredMember } from './content.ts'
import { blocksBytes, fitBlocks } from './fit-blocks.ts'

/*
 * Prepares a result for a model: applies the projection and the format of the tool's policy, and shortens a result that has more
 * bytes than the model may get at once. `reply.ts` and `agents/toolset.ts` call `fitResult` before they encode a result.
 * Invariants: a result that fits is changed only by the projection and the format; a shortened one describes what was left out and
 * names the address of the whole; `structuredContent` that a declared schema requires is sent, unless the tool has a projection, and
 * says so itself if it is shortened.
 */

export interface FitOptions {
  /** Maximum bytes that a model gets at once; 0 = no limit. */
  readonly modelBytes: number
  readonly revision: Revision
  readonly tool: ShownTool | undefined
  /** Name of the tool that reads results. */
  readToolName(): string
}

export interface FittedResult {
  /** `content` and `structuredContent`, as JSON without braces. */
  readonly members: string
  /** JSON of the `_meta` member that tells programs where the whole result is. */
  readonly shapedJson: string
}

/** A smaller budget has no room for the explanation. */
export const MIN_MODEL_BYTES = 2_000

/** Member of a shortened `structuredContent`. */
const SHAPED_MEMBER = 'collet/shaped'

/** `undefined` if the result fits as it is. */
export function fitResult(outcome: Success, callId: string, options: FitOptions): FittedResult | undefined {
  const { policy } = options.tool ?? {}
  const maxBytes = budgetOf(options)
  const isChanged = policy?.project !== undefined || policy?.modelFormat === 'toon'
  if (!isChanged && !isLarger(outcome, maxBytes)) return undefined
  return new Fitting(callId, { ...options, modelBytes: maxBytes }).fit(outcome)
}

/** Shortens the content of a failure; `undefined` if it fits. */
export function fitFailure(error: CallError, callId: string, options: FitOptions): FittedResult | undefined {
  const { message, shown } = error
  const maxBytes = budgetOf(options)
  const texts = shown === undefined ? [message] : [shown.contentJson, shown.structuredJson]
  if (texts.every((text) => text === undefined || !exceeds(text, maxBytes))) return undefined
  return new Fitting(callId, { ...options, modelBytes: maxBytes }).fitFailure(message, shown)
}

function budgetOf({ modelBytes }: FitOptions): number {
  return modelBytes === 0 ? 0 : Math.max(MIN_MODEL_BYTES, modelBytes)
}

/** Compares the stored texts. For short texts this costs almost nothing. */
function isLarger({ valueJson, shown }: Success, maxBytes: number): boolean {
  return (
    exceeds(valueJson, maxBytes) || (shown?.contentJson !== undefined && exceeds(shown.contentJson, maxBytes))
  )
}

function exceeds(text: string, maxBytes: number): boolean {
  // Each UTF-16 code unit takes at most three bytes in UTF-8.
  return maxBytes > 0 && text.length * 3 > maxBytes && byteLength(text) > maxBytes
}

class Fitting {
  readonly #handle: string
  readonly #options: FitOptions
  readonly #max: number
  #leftOut: readonly LeftOut[] = []
  #projected: readonly string[] = []
  /** The size of the structured content if it is not sent whole. */
  #longStructureBytes: number | undefined
  /** The address at which the pointers of `#leftOut` begin. */
  #at: string

  constructor(callId: string, options: FitOptions) {
    this.#handle = handleOf(callId)
    this.#at = this.#handle
    this.#options = options
    this.#max = options.modelBytes === 0 ? Number.POSITIVE_INFINITY : options.modelBytes
  }

  fit(outcome: Success): FittedResult | undefined {
    const { tool } = this.#options
    const parts = contentParts(outcome, tool)
    const structured = this.#project(parts.structured)
    const blocks = parts.blocks?.map((block) => this.#projectBlock(block))
    const fitted = blocks === undefined ? this.#fitValue(structured ?? null) : this.#fitBlocks(blocks)
    const member = this.#structured(structured, parts.blocks === undefined)
    const isWhole = fitted.isWhole && member.isWhole && this.#projected.length === 0
    if (isWhole && tool?.policy.modelFormat !== 'toon') return undefined
    return this.#result(fitted.blocks, member.json, byteLength(outcome.valueJson))
  }

  fitFailure(message: string, shown: Shown | undefined): FittedResult | undefined {
    const content: readonly JsonObject[] =
      shown === undefined ? [{ type: 'text', text: message }] : JSON.parse(shown.contentJson ?? '[]')
    const fitted = this.#fitBlocks(content)
    const { structuredJson } = shown ?? {}
    const isWhole = structuredJson === undefined || !exceeds(structuredJson, this.#max)
    if (fitted.isWhole && isWhole) return undefined
    if (!isWhole) this.#longStructureBytes = byteLength(structuredJson)
    const structured = structuredJson === undefined || !isWhole ? undefined : structuredJson
    const size = byteLength(shown === undefined ? message : (shown.contentJson ?? '[]'))
    const json = structured === undefined ? undefined : structuredMember(structured, this.#options.revision)
    return this.#result(fitted.blocks, json, size)
  }

  #result(blocks: readonly JsonObject[], structured: string | undefined, size: number): FittedResult {
    const explanation = this.#explanation(size)
    const content = explanation === undefined ? blocks : [{ type: 'text', text: explanation }, ...blocks]
    const members = `"content":${JSON.stringify(content)}`
    return {
      members: structured === undefined ? members : `${members},${structured}`,
      shapedJson: JSON.stringify({ uri: this.#handle }),
    }
  }

  #project(value: JsonValue | undefined): JsonValue | undefined {
    const paths = this.#options.tool?.policy.project
    if (paths === undefined || value === undefined) return value
    const projected = project(value, paths)
    this.#projected = [...new Set([...this.#projected, ...projected.leftOut])]
    return projected.value
  }

  /** Also projects JSON inside a text block, because many MCP servers send their data that way. */
  #projectBlock(block: JsonObject): JsonObject {
    if (this.#options.tool?.policy.project === undefined || typeof block.text !== 'string') return block
    const value = parseJsonText(block.text)
    if (typeof value === 'string') return block
    return { ...block, text: valueText(this.#project(value) ?? null, this.#format) }
  }

  get #format() {
    return this.#options.tool?.policy.modelFormat
  }

  /** The value as text, shortened if it is too long. */
  #fitValue(value: JsonValue): FittedContent {
    const text = valueText(value, this.#format)
    // A string is sent as a JSON string, as `encodeValue` does.
    const sent = typeof value === 'string' ? JSON.stringify(value) : text
    if (byteLength(sent) <= this.#max) return { blocks: [{ type: 'text', text: sent }], isWhole: true }
    const shaped = shapeValue(value, this.#max - MAX_WORDS_BYTES)
    this.#leftOut = shaped.leftOut
    return { blocks: [{ type: 'text', text: valueText(shaped.value, this.#format) }], isWhole: false }
  }

  #fitBlocks(blocks: readonly JsonObject[]): FittedContent {
    if (blocksBytes(blocks) <= this.#max) return { blocks, isWhole: true }
    this.#at = `${this.#handle}/content`
    const fitted = fitBlocks(blocks, this.#max - MAX_WORDS_BYTES, this.#at)
    this.#leftOut = fitted.leftOut
    return { blocks: fitted.blocks, isWhole: false }
  }

  /**
   * Without a declared schema a large value is left out. A declared schema requires a conforming value: a shortened one if it can say
   * that it is shortened, otherwise the whole. `isOnlyContent`: the
   * result has no content blocks besides this value.
   */
  #structured(
    value: JsonValue | undefined,
    isOnlyContent: boolean,
  ): { readonly json?: string; readonly isWhole: boolean } {
    if (value === undefined) return { isWhole: true }
    const { tool, revision } = this.#options
    const shape = tool === undefined ? undefined : shapeOf(tool)
    if (shape?.isNothing === true && value === null) return { isWhole: true }
    const isObject = isJsonObject(value) && (shape?.output === undefined || shape.isObject || !isOnlyContent)
    const write = (json: string) => structuredMember(json, revision, isObject)
    const json = JSON.stringify(value)
    if (byteLength(json) <= this.#max) return { json: write(json), isWhole: true }
    const hasDeclared = tool !== undefined && shape?.output !== undefined && tool.policy.project === undefined
    const short = hasDeclared ? this.#shortened(value, tool) : undefined
    if (hasDeclared && short === undefined) return { json: write(json), isWhole: true }
    this.#longStructureBytes = byteLength(json)
    return short === undefined ? { isWhole: false } : { json: write(short), isWhole: false }
  }

  #shortened(value: JsonValue, tool: ShownTool): string | undefined {
    const { value: short, leftOut, json } = shapeValue(value, this.#max - MAX_WORDS_BYTES)
    if (tool.checkOutput(short).length > 0) return undefined
    const note = `Shortened. The whole value is at ${this.#handle}`
    const noted: JsonValue = isJsonObject(short) ? { ...short, [SHAPED_MEMBER]: note } : short
    const canSay = noted !== short && (needsShortenedMember(tool) || tool.checkOutput(noted).length === 0)
    if (canSay) return JSON.stringify(noted)
    // A shortened string ends with a mark that says so.
    return leftOut.every(({ unit }) => unit === 'characters') ? json : undefined
  }

  /** Explains to the model what was left out; `undefined` if nothing was. */
  #explanation(size: number): string | undefined {
    const projected =
      this.#projected.length === 0
        ? []
        : [`This server leaves out members: ${shortList(this.#projected, this.#projected.length, 12)}.`]
    const tool = this.#options.readToolName()
    if (this.#leftOut.length === 0) {
      const structureBytes = this.#longStructureBytes
      const structure =
        structureBytes === undefined ? [] : [`The structured content is too long: ${structureBytes} bytes.`]
      if (projected.length + structure.length === 0) return undefined
      const notes = [...projected, ...structure].join(' ')
      return `${notes} The whole result is at ${this.#handle}; read it with ${tool}.`
    }
    return [
      `This result is too long to show: ${size} bytes, and at most ${this.#max} are shown at once. Parts of it follow. The whole result is kept at ${this.#handle}.`,
      ...projected,
      'Shown:',
      placesText(this.#leftOut),
      `To read the rest, call ${tool}, for example with ${JSON.stringify(this.#nextRead())}.`,
    ].join('\n')
  }

  /** Example input that continues at the first omitted part; as text if no path can lead to it. */
  #nextRead(): JsonObject {
    const [first] = this.#leftOut
    if (first === undefined) return { uri: this.#at }
    const isBeginning = first.path === '' && first.kept === 0
    if (isBeginning || first.path.length > MAX_EXAMPLE) return { uri: this.#at, format: 'text', offset: 0 }
    return { uri: this.#at, ...(first.path === '' ? {} : { path: first.path }), offset: first.kept }
  }
}

const MAX_EXAMPLE = 200

interface FittedContent {
  readonly blocks: readonly JsonObject[]
  readonly isWhole: boolean
}

/** True if the listed schema must be extended with the member that marks a shortened value; `withNote` adds it. */
export function needsShortenedMember({
  source,
  outputSchema,
}: Pick<ShownTool, 'source' | 'outputSchema'>): boolean {
  // Schemas of other MCP servers are listed unchanged.
  if (source === 'mcp' || outputSchema?.type !== 'object') return false
  return outputSchema.additionalProperties === false && outputSchema.maxProperties === undefined
}

const NOTE_SCHEMA: JsonObject = { type: 'string', description: 'Present if the value is shortened.' }

/** Adds the member that marks a shortened value to the listed output schema. */
export function withNote(schema: JsonObject): JsonObject {
  const properties = isJsonObject(schema.properties) ? schema.properties : {}
  return { ...schema, properties: { ...properties, [SHAPED_MEMBER]: NOTE_SCHEMA } }
}
