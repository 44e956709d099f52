import { hiddenCharacter } from '#core/imports/suspicions'
import { cleanText, type JsonObject, type JsonValue } from '#core/json'
import type { Elicitation, ElicitationAnswer } from '#core/runtime'
import type { ToolContext } from '#core/tool'
import { isWireArray, isWireObject, textOf } from './wire.ts'

const LONGEST_MESSAGE = 10_000

/**
 * An upstream's question in our form; `undefined` when it cannot be put to a person. It names its source, so that it
 * passes for nobody else's, and shows what would be hidden.
 */
export function readQuestion(params: unknown, source: string): Elicitation | undefined {
  if (!isWireObject(params)) return undefined
  const said = cleanText((textOf(params.message) ?? '').slice(0, LONGEST_MESSAGE))
  const message = `The MCP server "${source}" asks: ${said}`
  if (params.mode === 'url') {
    const url = URL.parse(textOf(params.url) ?? '')
    // A link of another kind could run something where it is opened; one with a user in it looks like another host.
    if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
      return undefined
    return { mode: 'url', message, url: url.href, id: textOf(params.elicitationId) ?? '', untrusted: true }
  }
  const schema = isWireObject(params.requestedSchema) ? cleanForm(params.requestedSchema) : undefined
  return schema === undefined ? undefined : { mode: 'form', message, schema, untrusted: true }
}

/** Members that are shown and mean nothing; what is sent back has to stay as it is. */
const SHOWN: ReadonlySet<string> = new Set(['title', 'description', 'enumNames'])

/** `undefined` when what is sent back would show as something else: names of fields, choices. */
function cleanForm(schema: JsonObject): JsonObject | undefined {
  const cleaned = cleanMembers(schema)
  return hasHidden(cleaned) ? undefined : cleaned
}

function cleanMembers(value: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, JsonValue] => [
      name,
      SHOWN.has(name) ? cleanShown(member) : cleanMember(member),
    ]),
  )
}

function cleanMember(value: JsonValue): JsonValue {
  if (isWireArray(value)) return value.map(cleanMember)
  return isWireObject(value) ? cleanMembers(value) : value
}

/** A field may be called `title`, and is then no text. */
function cleanShown(value: JsonValue): JsonValue {
  if (typeof value === 'string') return cleanText(value)
  return isWireArray(value) ? value.map(cleanShown) : cleanMember(value)
}

function hasHidden(value: JsonValue): boolean {
  if (typeof value === 'string') return hiddenCharacter(value) !== undefined
  if (isWireArray(value)) return value.some(hasHidden)
  if (!isWireObject(value)) return false
  return Object.entries(value).some(([name, member]) => hasHidden(name) || hasHidden(member))
}

/** Puts a question to the person behind the call; what cannot be asked is declined. */
export async function askCaller(
  context: ToolContext,
  params: unknown,
  source: string,
): Promise<ElicitationAnswer> {
  const question = readQuestion(params, source)
  if (question === undefined) return { action: 'decline' }
  return await context.elicit(question)
}

export type FormValue = string | number | boolean | string[]

/** The answer as MCP writes it, in both eras; forms are flat (MCP-76), so nothing else is passed on. */
export function answerOf(answer: ElicitationAnswer): {
  action: ElicitationAnswer['action']
  content?: Record<string, FormValue>
} {
  if (answer.action !== 'accept' || answer.content === undefined) return { action: answer.action }
  const fields = Object.entries(answer.content).flatMap(([name, value]): [string, FormValue][] => {
    const field = formValue(value)
    return field === undefined ? [] : [[name, field]]
  })
  return { action: 'accept', content: Object.fromEntries(fields) }
}

function formValue(value: JsonValue): FormValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (!isWireArray(value)) return undefined
  const texts = value.flatMap((item) => (typeof item === 'string' ? [item] : []))
  return texts.length === value.length ? texts : undefined
}
