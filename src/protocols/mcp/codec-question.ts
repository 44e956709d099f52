import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type ClientCapabilities, META, type Revision, TRAITS } from './wire.ts'

/*
 * Translates questions of a running tool (forms, pages, sampling, roots) to the wire format of each revision and back.
 * `questions.ts` keeps them in the store; the modules of the revisions send them.
 * Invariant: a form asks for no secret and contains no link (MCP-76).
 */

const SCALARS: ReadonlySet<JsonValue | undefined> = new Set(['string', 'number', 'integer', 'boolean'])
const SECRET = /pass(?:word|phrase)|secret|api[-_ ]?key|token|credential/i
const LINK = /https?:\/\//i

/** The problem with a form, or `undefined`. For secrets and links a tool must use a page instead (MCP-76). */
export function findFormProblem(message: string, schema: JsonObject): string | undefined {
  if (LINK.test(message)) return 'its text has a link; ask with a page instead'
  if (schema.type !== 'object' || !isJsonObject(schema.properties)) return 'its schema is not a flat object'
  for (const [name, field] of Object.entries(schema.properties)) {
    if (!isJsonObject(field) || !isFlat(field))
      return `'${name}' is not a string, a number, a boolean or a choice`
    if (SECRET.test(name)) return `'${name}' asks for a secret; ask with a page instead`
  }
  return undefined
}

function isFlat(field: JsonObject): boolean {
  if (SCALARS.has(field.type) || Array.isArray(field.enum) || Array.isArray(field.oneOf)) return true
  return field.type === 'array' && isJsonObject(field.items)
}

/** Method and params of a question (MCP-71, MCP-76, MCP-77). */
interface WireQuestion {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list'
  readonly params: JsonObject
}

/** A question and the key under which its answer arrives. */
export type KeyedQuestion = Elicitation & { readonly key: string }

export function mayAsk(question: Elicitation, capabilities: ClientCapabilities): boolean {
  return capabilities[question.mode]
}

export function toWireQuestion(question: Elicitation, revision: Revision, id: string): WireQuestion {
  switch (question.mode) {
    case 'form':
      return { method: 'elicitation/create', params: toForm(question, revision) }
    case 'url': {
      const { message, url } = question
      const elicitationId = TRAITS[revision].hasElicitationId ? { elicitationId: id } : {}
      const params = { mode: 'url', message, url, ...elicitationId, ...trustOf(question) }
      return { method: 'elicitation/create', params }
    }
    case 'sampling':
      return { method: 'sampling/createMessage', params: question.params }
    case 'roots':
      return { method: 'roots/list', params: {} }
  }
}

function toForm(question: Elicitation & { readonly mode: 'form' }, revision: Revision): JsonObject {
  const { message, schema } = question
  const trust = trustOf(question)
  if (TRAITS[revision].hasUrlMode) return { mode: 'form', message, requestedSchema: schema, ...trust }
  return { message, requestedSchema: toLegacyForm(schema), ...trust }
}

/** Marks text of third parties, so that the client can show where it comes from (OWP-58). */
function trustOf({ untrusted }: { readonly untrusted?: true }): JsonObject {
  return untrusted === true ? { _meta: { [META.contentTrust]: 'untrusted' } } : {}
}

/** The first revision has no titled choices, and defaults only for booleans (MCP §3). */
function toLegacyForm(schema: JsonObject): JsonObject {
  const { properties } = schema
  if (!isJsonObject(properties)) return schema
  const fields = Object.entries(properties).map(([name, field]): [string, JsonValue] => [
    name,
    isJsonObject(field) ? toLegacyField(field) : field,
  ])
  return { ...schema, properties: Object.fromEntries(fields) }
}

function toLegacyField(field: JsonObject): JsonObject {
  const { oneOf, default: preset, ...rest } = field
  const kept = field.type === 'boolean' && preset !== undefined ? { default: preset } : {}
  if (!Array.isArray(oneOf)) return { ...rest, ...kept }
  const choices = oneOf.filter(isJsonObject)
  return {
    ...rest,
    ...kept,
    enum: choices.map((choice) => choice.const ?? ''),
    enumNames: choices.map((choice) => choice.title ?? String(choice.const)),
  }
}

const ACTIONS = ['accept', 'decline', 'cancel'] as const

/** Reads an answer; `undefined` if it does not answer a question of this mode (MCP-74). */
export function readAnswer(
  question: Elicitation,
  result: JsonValue | undefined,
): ElicitationAnswer | undefined {
  if (!isJsonObject(result)) return undefined
  if (question.mode === 'sampling' || question.mode === 'roots') {
    const isWhole =
      question.mode === 'roots'
        ? Array.isArray(result.roots)
        : result.role !== undefined && 'content' in result
    return isWhole ? { action: 'accept', content: result } : undefined
  }
  const action = ACTIONS.find((known) => known === result.action)
  if (action === undefined) return undefined
  const { content } = result
  if (content !== undefined && !isJsonObject(content)) return undefined
  if (action !== 'accept') return { action }
  return { action, ...(isJsonObject(content) ? { content } : {}) }
}

export function questionToJson(question: KeyedQuestion): JsonObject {
  return { ...question }
}

/** Reads a stored question; `undefined` if another version wrote it in a form that this one does not know. */
export function questionFromJson(json: JsonObject): KeyedQuestion | undefined {
  const { mode, key, message, schema, url, id, params } = json
  const trust = json.untrusted === true ? ({ untrusted: true } as const) : {}
  if (typeof key !== 'string') return undefined
  if (mode === 'form' && typeof message === 'string' && isJsonObject(schema))
    return { mode, key, message, schema, ...trust }
  if (mode === 'url' && typeof message === 'string' && typeof url === 'string' && typeof id === 'string')
    return { mode, key, message, url, id, ...trust }
  if (mode === 'sampling' && isJsonObject(params)) return { mode, key, params }
  return mode === 'roots' ? { mode, key } : undefined
}
