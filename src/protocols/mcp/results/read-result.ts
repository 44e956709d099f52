import { fault, isToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import type { McpExchange, McpServices } from '#protocols/mcp/exchange'
import type { ListedItem } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolTables } from '#protocols/mcp/tool-tables'
import { META, type Revision, TRAITS } from '#protocols/mcp/wire'
import { pointerOf } from '#results/paths'
import type { ReadRequest, ResultPart, Where } from '#results/read'
import {
  checkedRequest,
  findResult,
  isHandle,
  QUERY_TEMPLATE,
  type ResultAddress,
  readHandle,
  readResult,
} from '#results/recorded'
import { MAX_WORDS_BYTES, partText, valueText } from '#results/words'
import { MIN_MODEL_BYTES } from './fit.ts'

/*
 * Recorded results for models: the tool `read_result`, and the resources `collet://calls/ID` (MCP-182, MCP-183). `methods.ts`
 * serves the tool, `features/resources.ts` the resources.
 * Invariants: reading is not a call, so nothing is recorded; a caller reads only its own calls; every text for a model fits into
 * its budget.
 */

/** The tool, for lists of tools. */
export const READ_RESULT = 'read_result'
const OTHER_NAME = 'collet_read_result'

/** Name of the tool. It gives way to a tool of the catalog that already has this name. */
export function readToolName(table: ReadonlyMap<string, unknown>): string {
  return table.has(READ_RESULT) ? OTHER_NAME : READ_RESULT
}

/** Budget of a read where results are not shortened otherwise. */
export const DEFAULT_MODEL_BYTES = 32_000

export const READ_RESULT_DESCRIPTION =
  'Reads a result of an earlier call that was too long to show, part by part. Its address, collet://calls/ID, is in the shortened result.'

export const READ_RESULT_INPUT: JsonObject = {
  type: 'object',
  properties: {
    uri: { type: 'string', description: 'Address of the result: collet://calls/ID' },
    path: {
      type: 'string',
      description: 'Which part: /items/3/name or items[3].name. Default: the whole result.',
    },
    offset: {
      type: 'integer',
      minimum: 0,
      description: 'First item of an array, member of an object or character of a text.',
    },
    limit: { type: 'integer', minimum: 1, description: 'Maximum number of them.' },
    where: {
      type: 'object',
      description: 'Only the array items whose member matches.',
      properties: {
        member: { type: 'string', description: 'Name or path inside of an item.' },
        equals: {
          type: 'string',
          description: 'The value that the member must have; a number or boolean as text.',
        },
        contains: { type: 'string', description: 'A part of the text that the member must contain.' },
      },
      required: ['member'],
    },
    select: {
      type: 'array',
      items: { type: 'string' },
      description: 'Only these members of an object or of each item.',
    },
    format: {
      type: 'string',
      enum: ['json', 'toon', 'text'],
      description: 'toon: lists as tables. text: JSON as plain text, by characters.',
    },
  },
  required: ['uri'],
  additionalProperties: false,
}

type Table = ReadonlyMap<string, { readonly tool: Tool }>

/** The tool as an item of `tools/list`; none if no result of these tools can be too long. */
export function listedReadTool(
  table: Table,
  modelBytes: number | undefined,
  revision: Revision,
): readonly ListedItem[] {
  if (!canShorten(table, modelBytes)) return []
  const name = readToolName(table)
  const definition = {
    name,
    title: 'Read a long result',
    description: READ_RESULT_DESCRIPTION,
    inputSchema: READ_RESULT_INPUT,
    annotations: { readOnlyHint: true, openWorldHint: false },
    ...(TRAITS[revision].tasks === 'requested' ? { execution: { taskSupport: 'forbidden' } } : {}),
    _meta: { [META.readsResults]: true },
  }
  return [{ name, json: JSON.stringify(definition) }]
}

function canShorten(table: Table, modelBytes = 0): boolean {
  return [...table.values()].some(({ tool }) => canBeShortened(tool, modelBytes))
}

export class ReadResults {
  readonly #services: McpServices
  readonly #envelopes: ResultEnvelopes
  readonly #tables: ToolTables

  constructor(services: McpServices, envelopes: ResultEnvelopes, tables: ToolTables) {
    this.#services = services
    this.#envelopes = envelopes
    this.#tables = tables
  }

  /** The tool as an item of `tools/list`; none if no result of this catalog can be too long. */
  listedTool(catalog: Catalog, revision: Revision): readonly ListedItem[] {
    return listedReadTool(this.#tables.of(catalog), this.#services.options.modelBytes, revision)
  }

  /** The resource template; listed for the same catalogs as the tool. */
  listedTemplate(catalog: Catalog): readonly ListedItem[] {
    if (!this.#canShorten(catalog)) return []
    const uriTemplate = `collet://calls/{id}${QUERY_TEMPLATE}`
    const description = 'Results of earlier calls, whole or in parts, as long as they are kept.'
    const definition = { uriTemplate, name: 'Result of a call', description, mimeType: 'application/json' }
    return [{ name: uriTemplate, json: JSON.stringify(definition) }]
  }

  #canShorten(catalog: Catalog): boolean {
    return canShorten(this.#tables.of(catalog), this.#services.options.modelBytes)
  }

  /** True if the call names the tool that reads results. */
  isRead(params: JsonValue | undefined, { principal }: McpExchange): boolean {
    const name = isJsonObject(params) ? params.name : undefined
    if (name !== READ_RESULT && name !== OTHER_NAME) return false
    const catalog = this.#services.gateway.catalogFor(principal)
    return name === readToolName(this.#tables.of(catalog)) && this.#canShorten(catalog)
  }

  /** `tools/call` of the tool. */
  async call(params: JsonValue | undefined, exchange: McpExchange): Promise<Answer> {
    const { id, principal, revision } = exchange
    const { gateway } = this.#services
    await gateway.admit(principal)
    const envelope = this.#envelopes.of(revision)
    const input = isJsonObject(params) && isJsonObject(params.arguments) ? params.arguments : {}
    try {
      const { content, untrusted } = await this.#read(principal, addressOf(input))
      const of = untrusted ? { untrusted } : {}
      return resultAnswer(id, envelope.complete(`"content":${JSON.stringify(content)}`, of))
    } catch (error) {
      if (!isToolError(error) || !READ_FAULTS.has(error.code)) throw error
      const content = JSON.stringify([{ type: 'text', text: error.message }])
      return resultAnswer(id, envelope.complete(`"content":${content},"isError":true`))
    }
  }

  async #read(principal: Principal, address: ResultAddress): Promise<ReadAnswer> {
    const maxBytes = this.#maxBytes - MAX_WORDS_BYTES
    const picture = await this.#picture(principal, address)
    if (picture !== undefined) return picture
    const part = await readResult(this.#services.gateway, principal, { ...address, maxBytes })
    const text = valueText(part.value, address.request.format)
    const content = [
      { type: 'text', text: partText(part) + indexesText(part) },
      // TOON and raw texts are never longer than the JSON that was measured.
      { type: 'text', text },
    ]
    return { content, untrusted: part.untrusted || undefined }
  }

  /** An image that is requested as a whole, as an image. */
  async #picture(
    principal: Principal,
    { callId, root, request }: ResultAddress,
  ): Promise<ReadAnswer | undefined> {
    if (root !== 'content' || request.offset !== undefined || request.limit !== undefined) return undefined
    const { content = [], untrusted } = await findResult(this.#services.gateway, principal, callId)
    const block = content.find(
      (each, index) => request.path === pointerOf([String(index)]) && isJsonObject(each),
    )
    if (!isJsonObject(block) || block.type !== 'image' || typeof block.data !== 'string') return undefined
    return block.data.length > MAX_PICTURE_CHARACTERS
      ? undefined
      : { content: [block], untrusted: untrusted || undefined }
  }

  get #maxBytes(): number {
    return Math.max(MIN_MODEL_BYTES, this.#services.options.modelBytes || DEFAULT_MODEL_BYTES)
  }

  /** `resources/read`. `undefined` if the address is not one of the caller's calls; an upstream may have it. */
  async resource(uri: string, exchange: McpExchange): Promise<Answer | undefined> {
    const { id, principal, revision } = exchange
    if (!isHandle(uri)) return undefined
    await this.#services.gateway.admit(principal)
    try {
      const address = readHandle(uri)
      const contents = JSON.stringify([await this.#contents(uri, principal, address)])
      const caching = TRAITS[revision].hasResultType ? ',"ttlMs":60000,"cacheScope":"private"' : ''
      return resultAnswer(id, this.#envelopes.of(revision).complete(`"contents":${contents}${caching}`))
    } catch (error) {
      if (!isToolError(error) || !READ_FAULTS.has(error.code)) throw error
      if (error.code === 'call_not_found') return undefined
      return errorAnswer(id, {
        code: TRAITS[revision].resourceUnknownCode,
        message: error.message,
        data: { uri },
      })
    }
  }

  /** Sends a block of bytes whole, because the client reads it and not the model. Everything else must fit into the budget. */
  async #contents(uri: string, principal: Principal, address: ResultAddress): Promise<JsonObject> {
    const { callId, root, request } = address
    const { gateway } = this.#services
    if (root === 'content' && request.offset === undefined && request.limit === undefined) {
      const { content = [] } = await findResult(gateway, principal, callId)
      const block = content.find((_each, index) => request.path === pointerOf([String(index)]))
      const whole = isJsonObject(block) ? wholeBlock(block) : undefined
      if (whole !== undefined) return { uri, ...whole }
    }
    const maxBytes = this.#maxBytes - MAX_WORDS_BYTES
    const {
      value,
      leftOut,
      untrusted: _untrusted,
      callId: _callId,
      ...range
    } = await readResult(gateway, principal, { ...address, maxBytes })
    const isText = typeof value === 'string'
    const places = leftOut.slice(0, MAX_PLACES).map(({ names: _names, ...place }) => place)
    const meta = {
      ...range,
      ...(places.length === 0 ? {} : { leftOut: places, leftOutPlaces: leftOut.length }),
    }
    const mimeType = isText ? 'text/plain' : 'application/json'
    return { uri, mimeType, text: valueText(value, request.format), _meta: { 'collet/part': toJson(meta) } }
  }
}

const MAX_PLACES = 8
const MAX_PICTURE_CHARACTERS = 5_000_000
const READ_FAULTS: ReadonlySet<string> = new Set(['request_invalid', 'call_not_found', 'result_expired'])

interface ReadAnswer {
  readonly content: readonly JsonObject[]
  readonly untrusted: true | undefined
}

/** False for tools that have no output or return only numbers or booleans, unless results are projected. */
function canBeShortened({ outputSchema, policy }: Tool, modelBytes: number): boolean {
  if (outputSchema === null || (policy.modelBytes ?? modelBytes) === 0) return policy.project !== undefined
  return typeof outputSchema.type !== 'string' || !SHORT_TYPES.has(outputSchema.type)
}

const SHORT_TYPES: ReadonlySet<string> = new Set(['number', 'integer', 'boolean', 'null'])

/** Reads the input of the tool. Its other parameters override those in the address. */
export function addressOf(given: JsonObject): ResultAddress {
  // Some models write `null` for a parameter that they do not use.
  const input: JsonObject = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
  const { uri, path, select, where, format } = input
  if (typeof uri !== 'string' || uri === '') throw wrong('uri', 'the address of a result: collet://calls/ID')
  if (path !== undefined && typeof path !== 'string') throw wrong('path', 'a text, for example /items/3/name')
  if (format !== undefined && typeof format !== 'string') throw wrong('format', 'json, toon or text')
  if (select !== undefined && !isTexts(select)) throw wrong('select', 'a list of names of members')
  const { callId, root, request } = readHandle(uri)
  const own: ReadRequest = checkedRequest({
    offset: numberIn(input, 'offset') ?? request.offset,
    limit: numberIn(input, 'limit') ?? request.limit,
    where: whereIn(where) ?? request.where,
    select: select ?? request.select,
    format: format ?? request.format,
    path: path === undefined ? request.path : joinPaths(request.path ?? '', path),
  })
  return { callId, root, request: own }
}

function wrong(name: string, expected: string): Error {
  return fault('request_invalid', `"${name}" must be ${expected}.`)
}

function isTexts(value: JsonValue): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

/** Some models write numbers as texts. Anything else becomes `NaN`, which `checkedRequest` refuses. */
function numberIn(input: JsonObject, name: 'offset' | 'limit'): number | undefined {
  const given = input[name]
  if (given === undefined || typeof given === 'number') return given
  return typeof given === 'string' && /^\d+$/.test(given) ? Number(given) : Number.NaN
}

/** A path parameter is relative to the path in the address. */
function joinPaths(base: string, path: string): string {
  if (base === '' || path === '') return base + path
  return path.startsWith('/') ? base + path : `${base}/${path}`
}

function whereIn(given: JsonValue | undefined): Where | undefined {
  if (given === undefined) return undefined
  const { member, equals, contains } = isJsonObject(given) ? given : {}
  const isKnown = typeof member === 'string' && (contains === undefined || typeof contains === 'string')
  if (!isKnown || (equals === undefined && contains === undefined))
    throw wrong('where', 'an object, for example { "member": "state", "equals": "open" }')
  return {
    member,
    ...(equals === undefined ? {} : { equals }),
    ...(contains === undefined ? {} : { contains }),
  }
}

const MAX_INDEXES = 50

function indexesText({ indexes }: ResultPart): string {
  if (indexes === undefined || indexes.length === 0) return ''
  const more = indexes.length > MAX_INDEXES ? ' …' : ''
  return `\nPositions in the array: ${indexes.slice(0, MAX_INDEXES).join(', ')}${more}`
}

function wholeBlock(block: JsonObject): JsonObject | undefined {
  const resource = isJsonObject(block.resource) ? block.resource : {}
  const blob = block.type === 'image' || block.type === 'audio' ? block.data : resource.blob
  if (typeof blob !== 'string') return undefined
  const mimeType = block.mimeType ?? resource.mimeType
  return { ...(typeof mimeType === 'string' ? { mimeType } : {}), blob }
}

function toJson(value: object): JsonValue {
  return JSON.parse(JSON.stringify(value))
}
