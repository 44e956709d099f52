import { isJsonObject, type JsonObject } from '#kernel/base/json'
import { parseJsonText } from '#results/paths'
import { byteLength, type LeftOut, shapeValue, shareOf } from '#results/shape'

/*
 * Shortens content blocks for a model: long texts keep their beginning, audio and files become links to the recorded result, and
 * images stay images while there is room. `fit.ts` uses it.
 * Invariant: a block within its share of the limit is not changed, and a link names the position of the block that it replaces.
 */

/** The cost of an image for a model, about 1 500 tokens, whatever the size of its file. */
const PICTURE_BYTES = 6_000
/** Providers refuse larger images. */
const MAX_PICTURE_CHARACTERS = 5_000_000
const LINK_BYTES = 250
/** A shorter block would not be useful. */
const MIN_BLOCK_BYTES = 120

interface FittedBlocks {
  readonly blocks: readonly JsonObject[]
  /** The omitted parts, with JSON pointers that begin at the list of blocks. */
  readonly leftOut: readonly LeftOut[]
  /** Number of blocks that were replaced by links. */
  readonly links: number
}

/** The size of the blocks for a model. */
export function blocksBytes(blocks: readonly JsonObject[]): number {
  return blocks.reduce((sum, block) => sum + costOf(block), 0)
}

export function fitBlocks(blocks: readonly JsonObject[], maxBytes: number, handle: string): FittedBlocks {
  const kept = blocks.slice(0, Math.max(1, Math.floor(maxBytes / MIN_BLOCK_BYTES)))
  const costs = kept.map(costOf)
  const share = shareOf(costs, maxBytes)
  const leftOut: LeftOut[] = []
  let links = 0
  const fitted = kept.map((block, index) => {
    if ((costs[index] ?? 0) <= share) return block
    if (block.type === 'text' && typeof block.text === 'string')
      return { ...block, text: shortText(block.text, share, `/${index}/text`, leftOut) }
    links += 1
    return linkTo(block, `${handle}/${index}`, index)
  })
  if (kept.length < blocks.length)
    leftOut.unshift({ path: '', unit: 'items', kept: kept.length, of: blocks.length })
  return { blocks: fitted, leftOut, links }
}

/** A text that holds JSON is shortened as JSON, so that its structure stays visible. */
function shortText(text: string, maxBytes: number, path: string, leftOut: LeftOut[]): string {
  const entered = parseJsonText(text)
  const shaped = shapeValue(entered, Math.max(2, maxBytes))
  for (const place of shaped.leftOut) leftOut.push({ ...place, path: path + place.path })
  return typeof shaped.value === 'string' ? shaped.value : shaped.json
}

function costOf(block: JsonObject): number {
  if (block.type === 'text' && typeof block.text === 'string') return byteLength(block.text)
  if (block.type === 'image' && typeof block.data === 'string')
    return block.data.length <= MAX_PICTURE_CHARACTERS
      ? Math.min(PICTURE_BYTES, block.data.length)
      : block.data.length
  return Math.max(LINK_BYTES, byteLength(JSON.stringify(block)))
}

/** A link through which clients read the block with `resources/read`, and models with `read_result`. */
function linkTo(block: JsonObject, uri: string, index: number): JsonObject {
  const resource = isJsonObject(block.resource) ? block.resource : {}
  const { data = resource.blob } = block
  const mimeType = block.mimeType ?? resource.mimeType
  const name = typeof resource.uri === 'string' ? resource.uri : `${String(block.type)} ${index}`
  return {
    type: 'resource_link',
    uri,
    name: name.slice(0, 200),
    ...(typeof mimeType === 'string' ? { mimeType: mimeType.slice(0, 100) } : {}),
    ...(typeof data === 'string' ? { size: Buffer.byteLength(data, 'base64') } : {}),
    ...(typeof resource.text === 'string' ? { size: byteLength(resource.text) } : {}),
    ...(block.annotations === undefined ? {} : { annotations: block.annotations }),
  }
}
