import { fault, type Report } from '#kernel/base/errors'
import { copyJson, describeValue, isJsonObject, isRecord, type JsonObject } from '#kernel/base/json'
import { checkKeys, isFunction } from '#kernel/tool/checks'
import { type DefinedTool, type EntryReader, markEntry, type WrittenMembers } from '#kernel/tool/define'
import type { ToolContext } from '#kernel/tool/tool'
import {
  COMMON_KEYS,
  type Complete,
  commonMembers,
  type EntryDefinition,
  listedMembers,
  readCompletion,
} from './entry-definition.ts'
import { isAddress, type ParamsOf, readTemplate, type UriTemplate } from './uri-template.ts'

/**
 * `resource()`: readable content at one address, or at all addresses of a template, written as code. The package exports it,
 * and loaders find resources in the same way as tools.
 * Invariant: a read is a call like that of a tool, with the same checks, context, limits and journal (MCP-132).
 */

/** One part of the content. Default address: the requested one. Default type: the one in the definition. */
export type ResourceContent = {
  readonly uri?: string
  readonly mimeType?: string
} & ({ readonly text: string } | { readonly blob: Uint8Array | string })

/** A text, bytes, or several parts. `undefined` means that there is no such resource. */
export type ResourceResult =
  | string
  | Uint8Array
  | {
      readonly contents: readonly ResourceContent[]
      /** How long clients of 2026-07-28 may keep it, in milliseconds. Default 0. */
      readonly ttlMs?: number
      /** `public`: the content is the same for all callers. Default `private`. */
      readonly cacheScope?: 'public' | 'private'
    }
  | undefined

interface CommonResource extends EntryDefinition {
  readonly mimeType?: string
  /** Hints for clients: `audience`, `priority`, `lastModified`. */
  readonly annotations?: JsonObject
}

/** A resource with one address. */
export interface FixedResource extends CommonResource {
  readonly uri: string
  readonly uriTemplate?: undefined
  readonly complete?: undefined
  readonly read: (
    request: { readonly uri: string; readonly params: Readonly<Record<never, never>> },
    context: ToolContext,
  ) => ResourceResult | Promise<ResourceResult>
}

/** All resources whose addresses come from a template (RFC 6570). */
export interface TemplateResource<Template extends string> extends CommonResource {
  readonly uri?: undefined
  /** For example `docs://{page}`, `files:///{+path}` (values with `/`) or `search://all{?q,limit}`. */
  readonly uriTemplate: Template
  /** Suggests values for variables while a user types. */
  readonly complete?: { readonly [Name in keyof ParamsOf<Template>]?: Complete }
  readonly read: (
    request: { readonly uri: string; readonly params: ParamsOf<Template> },
    context: ToolContext,
  ) => ResourceResult | Promise<ResourceResult>
}

export type ResourceDefinition<Template extends string = string> = FixedResource | TemplateResource<Template>

/** Defines a resource. It only adds types and a mark: everything is checked when the server loads it. */
export function resource<const Id extends string>(
  definition: FixedResource & { readonly id: Id },
): FixedResource & DefinedTool<Id>
export function resource<const Template extends string, const Id extends string>(
  definition: TemplateResource<Template> & { readonly id: Id },
): TemplateResource<Template> & DefinedTool<Id>
export function resource(definition: ResourceDefinition): ResourceDefinition & DefinedTool {
  return markEntry(definition, READER)
}

type Listener = (uri: string) => void

/** Listeners by the author's definition object, which `resourceChanged` gets. */
const LISTENERS = new WeakMap<object, Set<Listener>>()

function watchOwn(definition: object, asked: string, onUpdated: Listener): () => void {
  const listeners = LISTENERS.get(definition) ?? new Set<Listener>()
  LISTENERS.set(definition, listeners)
  const listener: Listener = (uri) => {
    if (uri === asked) onUpdated(uri)
  }
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/**
 * Notifies the clients that subscribed to a resource that it has changed, in this process. A template needs the address that
 * changed: `resourceChanged(page, 'docs://start')`.
 */
export function resourceChanged(
  definition: DefinedTool & { readonly uri?: string | undefined },
  uri: string | undefined = definition.uri,
): void {
  if (uri === undefined)
    throw new TypeError(`${definition.id} has many addresses: name the one that changed.`)
  for (const listener of LISTENERS.get(definition) ?? []) listener(uri)
}

const KEYS = Object.keys({
  ...COMMON_KEYS,
  mimeType: true,
  annotations: true,
  uri: true,
  uriTemplate: true,
  complete: true,
  read: true,
} satisfies Record<keyof FixedResource | keyof TemplateResource<string>, true>)

const INPUT: JsonObject = {
  type: 'object',
  properties: { uri: { type: 'string', description: 'Address of the resource.' } },
  required: ['uri'],
}

const RESULT: JsonObject = {
  type: 'object',
  description: 'The content of the resource.',
  properties: {
    contents: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          uri: { type: 'string' },
          mimeType: { type: 'string' },
          text: { type: 'string' },
          blob: { type: 'string' },
        },
        required: ['uri'],
        anyOf: [{ required: ['text'] }, { required: ['blob'] }],
      },
    },
    ttlMs: { type: 'integer', minimum: 0 },
    cacheScope: { enum: ['public', 'private'] },
  },
  required: ['contents'],
}

type Read = (request: object, context: unknown) => unknown

const READER: EntryReader = {
  read(written, report) {
    checkKeys(written, KEYS, '', report)
    const { uri, uriTemplate, complete, read, mimeType } = written
    const template = readAddress(written, report)
    const made = isFunction<Read>(read) ? read.bind(written) : undefined
    if (made === undefined)
      report(
        'read',
        `Is ${describeValue(read)}.`,
        'Write a function: `read: ({ uri, params }, context) => …`.',
      )
    const type = checkMimeType(mimeType, report)
    const run = async (input: unknown, context: unknown) => {
      const address = isRecord(input) && typeof input.uri === 'string' ? input.uri : ''
      const params = template === undefined ? {} : template.paramsOf(address)
      const given = params === undefined ? undefined : await made?.({ uri: address, params }, context)
      if (given === undefined) throw unknownResource(address)
      return toResult(given, address, type)
    }
    return {
      tool: { ...commonMembers(written, report), input: INPUT, output: RESULT, run },
      functions: [read, ...(isRecord(complete) ? Object.values(complete) : [])],
      list({ name }, findings) {
        const address = typeof uriTemplate === 'string' ? { uriTemplate } : { uri: String(uri) }
        const definition = {
          ...address,
          name,
          ...listedMembers(written, findings),
          ...(type === undefined ? {} : { mimeType: type }),
          ...readAnnotations(written, findings),
        }
        const watch = (asked: string, _principal: unknown, onUpdated: Listener) =>
          watchOwn(written, asked, onUpdated)
        if (template === undefined) return { kind: 'resource', name, definition, watch }
        const variables = new Map(template.names.map((variable) => [variable, undefined]))
        return {
          kind: 'template',
          name,
          definition,
          complete: readCompletion(complete, variables, findings),
          hasAddress: (asked) => template.paramsOf(asked) !== undefined,
          watch,
        }
      },
    }
  },
}

/** The template, if the resource has one. */
function readAddress(
  { uri, uriTemplate, complete }: WrittenMembers,
  report: Report,
): UriTemplate | undefined {
  const isFixed = uri !== undefined
  const where = isFixed ? 'uri' : 'uriTemplate'
  const address = isFixed ? uri : uriTemplate
  if (isFixed === (uriTemplate !== undefined))
    return report(
      'uri',
      isFixed ? 'Is set together with `uriTemplate`.' : 'Is missing.',
      "Write `uri: 'docs://guide'` for one address, or `uriTemplate: 'docs://{page}'` for many.",
    )
  if (!isAddress(address))
    return report(
      where,
      `Is ${describeValue(address)}, which is not an address.`,
      'Write a scheme and what follows it, without spaces: `docs://guide`.',
    )
  if (isFixed && complete !== undefined)
    report('complete', 'Is set, but `uri` has no variables.', 'Leave it out, or write `uriTemplate`.')
  return isFixed ? undefined : readTemplate(address, report)
}

function checkMimeType(type: unknown, report: Report): string | undefined {
  if (type === undefined || (typeof type === 'string' && /^[^\s/]+\/[^\s/;]+(?:;.*)?$/.test(type)))
    return type
  return report('mimeType', `Is ${describeValue(type)}.`, "Write a media type: `mimeType: 'text/markdown'`.")
}

function readAnnotations({ annotations }: WrittenMembers, report: Report): JsonObject {
  if (annotations === undefined) return {}
  const copied = copyJson(annotations)
  if (copied.ok && isJsonObject(copied.value)) return { annotations: copied.value }
  const fix = "Write `annotations: { audience: ['user'], priority: 0.5 }`, or leave it out."
  report('annotations', `Is ${describeValue(annotations)}.`, fix)
  return {}
}

/** The protocol's error code for an unknown resource; the newest revision has another code (MCP-115). */
const UNKNOWN_RESOURCE = -32_002

function unknownResource(uri: string): Error {
  return fault('tool_failed', `Unknown resource: ${uri}`, { errorNumber: UNKNOWN_RESOURCE })
}

/** The result in the form of the protocol. A result that cannot be converted is returned unchanged and fails the output check. */
function toResult(given: unknown, uri: string, mimeType: string | undefined): unknown {
  if (typeof given === 'string') return { contents: [toContent({ text: given }, uri, mimeType)] }
  if (given instanceof Uint8Array) return { contents: [toContent({ blob: given }, uri, mimeType)] }
  if (!isRecord(given) || !Array.isArray(given.contents)) return given
  return { ...given, contents: given.contents.map((content) => toContent(content, uri, mimeType)) }
}

function toContent(content: unknown, uri: string, mimeType: string | undefined): unknown {
  if (!isRecord(content)) return content
  const { blob } = content
  const type = mimeType ?? (blob === undefined ? 'text/plain' : 'application/octet-stream')
  const bytes = blob instanceof Uint8Array ? { blob: Buffer.from(blob).toString('base64') } : {}
  return { uri, mimeType: type, ...content, ...bytes }
}
