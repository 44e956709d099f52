import type { JsonValue } from '#core/json'
import type { Elicitation, ElicitationAnswer } from '#core/ports/elicitation'
import type { ToolContext } from '#core/tool'
import { isWireArray, isWireObject, textOf } from './wire.ts'

const LONGEST_MESSAGE = 10_000

/** An upstream's question in our form; `undefined` when it cannot be put to a person. */
export function readQuestion(params: unknown): Elicitation | undefined {
  if (!isWireObject(params)) return undefined
  const message = (textOf(params.message) ?? '').slice(0, LONGEST_MESSAGE)
  if (params.mode === 'url') {
    const url = textOf(params.url)
    // A link of another kind could run something where it is opened.
    if (url === undefined || !/^https?:$/.test(URL.parse(url)?.protocol ?? '')) return undefined
    return { mode: 'url', message, url, id: textOf(params.elicitationId) ?? '' }
  }
  const schema = params.requestedSchema
  return isWireObject(schema) ? { mode: 'form', message, schema } : undefined
}

/** Puts a question to the person behind the call; what cannot be asked is declined. */
export async function askCaller(context: ToolContext, params: unknown): Promise<ElicitationAnswer> {
  const question = readQuestion(params)
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
