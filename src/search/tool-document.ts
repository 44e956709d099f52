import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'
import { sourceToolkit } from '#kernel/tool/toolsets'
import { toolAction } from './intent.ts'
import type { RankedDocument } from './ranking.ts'
import { type Dictionary, makeDocument, type TermDocument } from './term-index.ts'
import { documentStems, plainName, stemsOf } from './words.ts'

/**
 * The searchable content of a tool: its names, its texts and its parameters. `visible-index.ts` extracts it once per version and
 * shares it between all callers that see the tool. Its size is limited, so that one tool cannot fill an index.
 */

const MAX_PARAMETERS = 60
const MAX_PARAMETER_TEXT = 160
const MAX_DESCRIPTION = 1_500
const MAX_DEPTH = 3

/** One version of a tool as a search sees it. */
export interface ToolDocument extends RankedDocument {
  readonly tool: Tool
  readonly words: TermDocument
}

export function toolDocument(dictionary: Dictionary, tool: Tool): ToolDocument {
  const written = tool.nativeName ?? localName(tool)
  const operation = written.slice(written.search(/[^/.:]*$/))
  const { title = '', description, policy } = tool
  const name = stemsOf(written)
  return {
    tool,
    words: termsOf(dictionary, tool, name),
    name: [...new Set([...name, ...stemsOf(title)])],
    action: toolAction([operation, title || firstSentence(description)], policy.safetyTier === 'read'),
  }
}

function termsOf(dictionary: Dictionary, tool: Tool, name: readonly string[]): TermDocument {
  const { title = '', description, tags = [] } = tool
  const summary = firstSentence(description)
  return makeDocument(dictionary, {
    name,
    title: documentStems(title === '' ? summary : title),
    summary: summary === title ? [] : documentStems(summary),
    description: documentStems(description.slice(summary.length, MAX_DESCRIPTION)),
    parameters: stemsOf(parameterTexts(tool.inputSchema).join(' ')),
    source: stemsOf([sourceToolkit(tool), ...tags].join(' ')),
  })
}

/** Every spelling by which a caller may know the tool, without case and punctuation. */
export function plainNames(tool: Tool): readonly string[] {
  const { id, parts, name, writtenName, catalogId, nativeName } = tool
  const written = [id, parts.base, name, catalogId, localName(tool), writtenName, nativeName]
  return [...new Set(written.flatMap((text) => (text === undefined ? [] : [plainName(text)])))]
}

/** The name without its source. */
function localName({ parts }: Tool): string {
  return parts.base.slice(parts.toolkit.length + 1)
}

/** Names and texts of the parameters, outer ones first. */
function parameterTexts(schema: JsonObject): readonly string[] {
  const texts: string[] = []
  let level: readonly JsonObject[] = [schema]
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth += 1) {
    const inner: JsonObject[] = []
    for (const { properties } of level)
      for (const [name, member] of Object.entries(isJsonObject(properties) ? properties : {})) {
        if (texts.length >= MAX_PARAMETERS) return texts
        texts.push(`${name} ${textOf(member)}`)
        inner.push(...schemasIn(member))
      }
    level = inner
  }
  return texts
}

function schemasIn(member: JsonValue): readonly JsonObject[] {
  if (!isJsonObject(member)) return []
  return isJsonObject(member.items) ? [member, member.items] : [member]
}

function textOf(member: JsonValue): string {
  const description = isJsonObject(member) ? member.description : undefined
  return typeof description === 'string' ? description.slice(0, MAX_PARAMETER_TEXT) : ''
}

/** Matches the beginning of descriptions of deprecated OpenAPI operations. */
export const DEPRECATED = /^deprecated\b[.:]?\s*/i
const MAX_SENTENCE_LENGTH = 160

/** The first sentence of a description, for lists. */
export function firstSentence(description: string): string {
  const [line = ''] = description.trim().replace(DEPRECATED, '').split('\n', 1)
  const end = line.search(/[.!?](?=\s+[\p{Lu}\p{N}"'`(])/u)
  const sentence = end === -1 ? line.trim() : line.slice(0, end + 1)
  return sentence.length <= MAX_SENTENCE_LENGTH
    ? sentence
    : `${sentence.slice(0, MAX_SENTENCE_LENGTH - 1).toWellFormed()}…`
}
