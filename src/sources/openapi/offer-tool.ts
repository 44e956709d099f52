import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { PolicyDefinition } from '#kernel/tool/tool'
import { type CommonOptions, policyOf } from '#sources/common/options'
import type { OfferedTool } from '#sources/kit/source'
import type { Binding } from './binding.ts'
import { composeInput, type InputContext, isBodyless } from './compose-input.ts'
import { type DocumentNode, type Documents, entriesOf, memberOf } from './documents.ts'
import { isJson, type Method, type Operation, type SuccessResponse } from './operation.ts'
import type { OpenapiOptions } from './options.ts'
import type { SchemaDefinitions } from './schemas.ts'
import { chooseSecurity, type SecurityContext } from './security.ts'

/**
 * Converts an operation to an offered tool: input, output, policy and binding. `reading.ts` uses it. Invariant: the HTTP
 * method decides the default policy, never text from the document.
 */

const MAX_WARNINGS = 100
const MAX_NAMES = 10

/** Warnings for the operator, without duplicates and limited in number. */
export class Warnings {
  readonly #texts = new Set<string>()
  readonly #ofTools = new Map<string, string[]>()

  add(text: string): void {
    this.#texts.add(text)
  }

  /** Adds a warning about one tool; tools with the same warning share a line. */
  addFor(nativeName: string, text: string): void {
    const names = this.#ofTools.get(text)
    if (names === undefined) this.#ofTools.set(text, [nativeName])
    else names.push(nativeName)
  }

  list(): readonly string[] {
    const ofTools = [...this.#ofTools].map(([text, names]) => {
      const shown = names.slice(0, MAX_NAMES).join(', ')
      const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''
      return `${text}: ${shown}${more}.`
    })
    const all = [...ofTools, ...this.#texts]
    if (all.length <= MAX_WARNINGS) return all
    return [...all.slice(0, MAX_WARNINGS), `There are ${all.length - MAX_WARNINGS} more warnings.`]
  }
}

export interface OfferContext extends Pick<InputContext, 'documents' | 'credentialPlaces'> {
  readonly options: OpenapiOptions
  readonly security: SecurityContext
  readonly input: SchemaDefinitions
  readonly output: SchemaDefinitions
}

export type Offer =
  | {
      readonly ok: true
      readonly tool: OfferedTool
      readonly baseUrl: string
      readonly hasCredentials: boolean
      readonly standIns: ReadonlyMap<string, string>
      readonly warnings: readonly string[]
    }
  | { readonly ok: false; readonly problem: string }

const MAX_TITLE_LENGTH = 120
const MAX_DESCRIPTION_LENGTH = 4_000

export function offerTool(nativeName: string, operation: Operation, context: OfferContext): Offer {
  const { documents, options } = context
  const server = chooseServer(operation.servers, documents, options)
  if (!server.ok) return server
  const security = chooseSecurity(operation, context.security)
  if (!security.ok) return security
  const { idempotencyHeader } = options
  const input = composeInput(operation, { ...context, definitions: context.input, idempotencyHeader })
  const output = composeOutput(operation, context.output, options.output)
  const { method, path, summary, tags } = operation
  const binding: Binding = {
    baseUrl: server.baseUrl,
    method,
    path,
    parameters: input.parameters,
    body: input.body,
    credentials: [...security.credentials],
    tokenEndpoints: [...security.tokenEndpoints],
    idempotency: input.idempotency,
    accept: output.accept,
    response: output.response,
  }
  return {
    ok: true,
    baseUrl: server.baseUrl,
    hasCredentials: security.credentials.length > 0,
    standIns: security.standIns,
    warnings: [...bodyWarnings(operation), ...security.unsent.map(unsentWarning)],
    tool: defined({
      nativeName,
      title: summary === undefined || summary.length > MAX_TITLE_LENGTH ? undefined : summary,
      description: descriptionOf(operation),
      tags: tags.length === 0 ? undefined : tags,
      inputSchema: input.schema,
      outputSchema: output.schema,
      requirements: security.requirements,
      policy: operationPolicy(nativeName, binding, options),
      binding: toJson(binding),
    }),
  }
}

function bodyWarnings({ method, body }: Operation): readonly string[] {
  if (body === undefined || !isBodyless(method)) return []
  const [allows, effect] = body.required
    ? ['requires', ', so the service may refuse the call']
    : ['allows', '']
  return [`Sent without the body that the document ${allows}, because GET and HEAD have no body${effect}`]
}

function unsentWarning(scheme: string): string {
  const name = JSON.stringify(scheme)
  return `Not sent, because the scheme ${name} is an optional credential here and none is configured; write \`security: { ${name}: { secret: '…' } }\` to send it`
}

function descriptionOf({ method, path, summary, description, deprecated }: Operation): string {
  const texts = [
    deprecated ? 'Deprecated.' : undefined,
    summary,
    description === summary ? undefined : description,
  ]
  const joined = texts.filter((text) => text !== undefined).join('\n\n')
  const text = joined === '' ? `${method.toUpperCase()} ${path}` : joined
  return text.length <= MAX_DESCRIPTION_LENGTH
    ? text
    : `${text.slice(0, MAX_DESCRIPTION_LENGTH - 1).toWellFormed()}…`
}

/** The binding as JSON, without the members that are `undefined`. */
function toJson(binding: Binding): JsonObject {
  const json: JsonValue = JSON.parse(JSON.stringify(binding))
  return isJsonObject(json) ? json : {}
}

type ServerChoice =
  | { readonly ok: true; readonly baseUrl: string }
  | { readonly ok: false; readonly problem: string }

/** The base URL of an operation: the operator's `baseUrl`, or the first server that the document declares for the operation. */
function chooseServer(
  servers: readonly DocumentNode[],
  documents: Documents,
  { baseUrl, variables }: Pick<OpenapiOptions, 'baseUrl' | 'variables'>,
): ServerChoice {
  if (baseUrl !== undefined) return { ok: true, baseUrl: withoutSlash(baseUrl) }
  const server = servers[0] ?? { value: { url: '/' }, document: documents.root.document }
  const template = isJsonObject(server.value) ? server.value.url : undefined
  if (typeof template !== 'string') return { ok: false, problem: 'its server has no url' }
  const filled = fill(template, server, variables)
  if (!filled.ok) return filled
  // A relative server URL refers to the document's URL. For a document in a file, only a host without a scheme works, with https.
  const isFile = server.document.startsWith('file:')
  const lacksScheme = isFile && filled.baseUrl.startsWith('//')
  const url = URL.parse(lacksScheme ? `https:${filled.baseUrl}` : filled.baseUrl, server.document)
  const problem = addressProblem(url)
  if (url !== null && problem === undefined) return { ok: true, baseUrl: withoutSlash(url.href) }
  return { ok: false, problem: `the server "${template}" ${problem}: write \`baseUrl\`` }
}

function addressProblem(url: URL | null): string | undefined {
  if (url === null || url.protocol === 'file:') return 'is not a full address'
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    return 'is not a plain http or https address'
  return url.search === '' && url.hash === '' ? undefined : 'has a query or a fragment'
}

function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url
}

function fill(
  template: string,
  server: DocumentNode,
  chosen: Readonly<Record<string, string>>,
): ServerChoice {
  const declared = new Map(entriesOf(memberOf(server, 'variables')?.value))
  let problem: string | undefined
  const baseUrl = template.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const variable = declared.get(name)
    const { default: defaultValue, enum: choices } = isJsonObject(variable) ? variable : {}
    const value = Object.hasOwn(chosen, name) ? chosen[name] : defaultValue
    if (typeof value !== 'string' && typeof value !== 'number') {
      problem ??= `the server variable "${name}" has no value: write \`variables: { ${name}: … }\``
      return ''
    }
    if (Array.isArray(choices) && choices.length > 0 && !choices.map(String).includes(String(value))) {
      problem ??= `the server variable "${name}" must be one of: ${choices.map(String).join(', ')}`
    }
    return String(value)
  })
  return problem === undefined ? { ok: true, baseUrl } : { ok: false, problem }
}

/** The default policy of each HTTP method (OWP-33, RFC 9110 §9.2). */
const POLICIES = {
  get: { safetyTier: 'read', replay: 'idempotent' },
  head: { safetyTier: 'read', replay: 'idempotent' },
  options: { safetyTier: 'read', replay: 'idempotent' },
  put: { safetyTier: 'write', replay: 'idempotent' },
  delete: { safetyTier: 'write', replay: 'idempotent' },
  post: { safetyTier: 'write', replay: 'non-deterministic' },
  patch: { safetyTier: 'write', replay: 'non-deterministic' },
} as const satisfies Record<Method, PolicyDefinition>

/** The policy for a binding, with the operator's settings. */
export function operationPolicy(
  nativeName: string,
  { method, idempotency }: Pick<Binding, 'method' | 'idempotency'>,
  options: Pick<CommonOptions, 'policy' | 'tools'>,
): PolicyDefinition {
  // With this server's idempotency key, the service itself does not act twice (OWP-93).
  const replay = idempotency === undefined ? {} : ({ replay: 'idempotent' } as const)
  return policyOf(nativeName, options, { ...POLICIES[method], ...replay, egress: 'safe-fetch' })
}

/** Response headers that callers need: the next page, the total number, the address of a new resource. */
const SHOWN_HEADERS =
  /^(link|location|content-range|x-(next|prev|previous|total|page|per-page|cursor|continuation)(-[a-z-]+)?)$/

const RAW: JsonObject = {
  type: 'object',
  description: 'A response that is not JSON: text, or base64 if it is binary.',
  properties: { mediaType: { type: 'string' }, text: { type: 'string' }, base64: { type: 'string' } },
  required: ['mediaType'],
}

const HEADERS: JsonObject = {
  type: 'object',
  description: 'Headers of the response.',
  additionalProperties: { type: 'string' },
}

const NEXT: JsonObject = {
  type: 'object',
  description: 'Members to put into the input for the next page; absent on the last page.',
}

const HEAD: JsonObject = {
  type: 'object',
  properties: { status: { type: 'integer' }, headers: HEADERS },
  required: ['status', 'headers'],
}

/** The output schema: the body alone, or the body with `SHOWN_HEADERS`. `null` = no output, `{}` = any value. */
function composeOutput(
  { responses, method }: Operation,
  definitions: SchemaDefinitions,
  output: OpenapiOptions['output'],
) {
  const accept = acceptOf(responses)
  const headers = [...new Set(responses.flatMap((response) => response.headers))].filter((name) =>
    SHOWN_HEADERS.test(name),
  )
  const uses = new Set<string>()
  const shapes = shapesOf(responses, definitions, uses)
  const response = {
    json: output === 'any' || shapes.some(({ form }) => form === 'json'),
    raw: output === 'any' || shapes.some(({ form }) => form === 'raw'),
    headers: method === 'head' ? [] : headers,
  }
  if (method === 'head') return { schema: HEAD, accept, response }
  if (output === 'any' || responses.length === 0) return { schema: {}, accept, response }
  const body = bodySchema(shapes)
  if (headers.length === 0 && body === undefined) return { schema: null, accept, response }
  // If headers are returned, the result is an object even if the body is declared empty.
  const properties = { body: body ?? {}, headers: HEADERS, next: NEXT }
  const wrapped = { type: 'object', properties, required: ['body', 'headers'] }
  const schema = headers.length === 0 ? (body ?? {}) : wrapped
  return { schema: definitions.complete(schema, uses), accept, response }
}

interface Shape {
  readonly form: 'json' | 'raw' | 'nothing' | 'undescribed'
  readonly schema: JsonObject
}

function shapesOf(
  responses: readonly SuccessResponse[],
  definitions: SchemaDefinitions,
  uses: Set<string>,
): readonly Shape[] {
  return responses.flatMap(({ content, isEmpty }): readonly Shape[] => {
    if (content.length === 0) return [{ form: isEmpty ? 'nothing' : 'undescribed', schema: { type: 'null' } }]
    return content.flatMap(({ mediaType, schema: declared }): readonly Shape[] => {
      const isOpen = mediaType.trim() === '*/*'
      if (!isJson(mediaType) && !isOpen) return [{ form: 'raw', schema: RAW }]
      const schema = definitions.lower(declared, uses)
      // A wildcard media type means JSON, or also raw text if the schema is a string or missing.
      const { type } = definitions.followed(schema)
      const mayBeText = isOpen && (type === undefined || type === 'string')
      return [{ form: 'json', schema }, ...(mayBeText ? [{ form: 'raw', schema: RAW } as const] : [])]
    })
  })
}

/**
 * The schema of the body; `undefined` if no success response has one. If no success response describes its content, any value is
 * accepted. If one does, the others are assumed to have the same content or none.
 */
function bodySchema(shapes: readonly Shape[]): JsonObject | undefined {
  const forms = new Set(shapes.map(({ form }) => form))
  if (!forms.has('json') && !forms.has('raw')) return forms.has('undescribed') ? {} : undefined
  const distinct = new Map(shapes.map(({ schema }) => [JSON.stringify(schema), schema]))
  const all = [...distinct.values()]
  // If one schema accepts any value, all values are accepted.
  if (all.some((schema) => Object.keys(schema).length === 0)) return {}
  return all.length === 1 ? all[0] : { anyOf: all }
}

function acceptOf(responses: readonly SuccessResponse[]): string {
  const mediaTypes = new Set(
    responses.flatMap(({ content }) => content.map(({ mediaType }) => mediaType.trim())),
  )
  const sendable = [...mediaTypes].filter((mediaType) => /^[\x21-\x7e ]+$/.test(mediaType))
  if (sendable.length === 0) return '*/*'
  // JSON is requested first, and other media types with a lower priority.
  const wanted = sendable.filter(isJson)
  const others = sendable.filter((mediaType) => !isJson(mediaType))
  return [...wanted, ...others.map((other) => (wanted.length === 0 ? other : `${other};q=0.5`))].join(', ')
}
