import { setTimeout as pause } from 'node:timers/promises'
import { ProtocolError } from '@modelcontextprotocol/client'
import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { fault } from '#kernel/base/errors'
import { cleanText, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { ToolContext } from '#kernel/tool/tool'
import { hiddenCharacter } from '#sources/kit/suspicions'
import { type CallScope, type Connection, isWireArray, isWireObject, textOf } from './connection.ts'
import { explainLoss, isStale, StaleConnection, toCallError } from './errors.ts'

/** Rounds of questions in one call, and questions in one round. */
const MAX_ROUNDS = 10
const MAX_QUESTIONS = 20
/** Rounds in which the upstream only asks for patience. */
const MAX_WAITS = 500
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
/** How long a person may take at the page of an upstream, before the call is tried again. */
const MAX_VISIT_MS = 30_000
const URL_NEEDED = -32_042

interface ToolCall {
  /** Key of the source: whose questions they are. */
  readonly source: string
  readonly connection: Connection
  readonly scope: CallScope
  readonly params: JsonObject
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly completions: Completions
}

/** One call with all its rounds: what the upstream asks goes to the caller, the answers go back (MCP-73). */
export async function callTool(call: ToolCall): Promise<JsonObject> {
  const { connection, scope, headers } = call
  let params = call.params
  let rounds = 0
  let waits = 0
  for (;;) {
    const isFirst = rounds + waits === 0
    let result: JsonObject
    try {
      result = await connection.call(scope, params, headers)
    } catch (error) {
      if (await wasSentToPage(error, call)) {
        rounds += 1
        if (rounds > MAX_ROUNDS) throw tooManyRounds()
        continue
      }
      if (isFirst && isStale(error, connection) && !scope.context.signal.aborted)
        throw new StaleConnection('the connection was refused', { cause: error })
      throw toCallError(explainLoss(error, connection), scope, !isFirst)
    }
    if (result.resultType !== 'input_required') return result
    const questions = isWireObject(result.inputRequests) ? Object.entries(result.inputRequests) : []
    const state = textOf(result.requestState)
    if (questions.length === 0) {
      waits += 1
      if (waits > MAX_WAITS) throw tooManyRounds()
      const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(waits - 1, 8))
      await pause(waitMs, undefined, { signal: scope.context.signal }).catch((error: unknown) => {
        throw toCallError(error, scope, true)
      })
    } else {
      rounds += 1
      if (rounds > MAX_ROUNDS || questions.length > MAX_QUESTIONS) throw tooManyRounds()
    }
    params = {
      ...call.params,
      ...(questions.length === 0 ? {} : { inputResponses: await answerAll(questions, call) }),
      ...(state === undefined ? {} : { requestState: state }),
    }
  }
}

/** One after the other: a person answers one question at a time. */
async function answerAll(
  questions: readonly (readonly [string, JsonValue])[],
  { scope: { context }, source }: ToolCall,
): Promise<JsonObject> {
  const answers: [string, JsonValue][] = []
  for (const [key, question] of questions) {
    const method = isWireObject(question) ? textOf(question.method) : undefined
    if (!isWireObject(question) || method !== 'elicitation/create')
      throw fault(
        'upstream_failed',
        'The MCP server behind the tool asks for something that callers are not asked for.',
        {
          developerMessage: `It asks for ${method ?? 'nothing that can be read'}; only elicitation is offered.`,
        },
      )
    answers.push([key, answerOf(await askCaller(context, question.params, source))])
  }
  return Object.fromEntries(answers)
}

/** 2025-11-25: some work is needed at a page first; the call was refused until then, and may be made again (MCP-80). */
async function wasSentToPage(error: unknown, { scope, completions, source }: ToolCall): Promise<boolean> {
  if (!(error instanceof ProtocolError) || error.code !== URL_NEEDED) return false
  const data: unknown = error.data
  const visits = isWireObject(data) && isWireArray(data.elicitations) ? data.elicitations : []
  if (visits.length === 0 || visits.length > MAX_QUESTIONS) return false
  for (const visit of visits) {
    if (!isWireObject(visit)) return false
    const { signal } = scope.context
    const id = textOf(visit.elicitationId) ?? ''
    const completed = new AbortController()
    // Heard from the start: the person may be done before the answer is here.
    const done = completions.wait(id, MAX_VISIT_MS, AbortSignal.any([signal, completed.signal]))
    done.catch(() => undefined)
    const answer = await askCaller(scope.context, { ...visit, mode: 'url' }, source)
    if (answer.action !== 'accept') {
      completed.abort()
      return false
    }
    await done
  }
  return true
}

function tooManyRounds() {
  return fault('upstream_failed', 'The MCP server behind the tool keeps asking and comes to no end.', {
    developerMessage: `More than ${MAX_ROUNDS} rounds of questions, ${MAX_QUESTIONS} in one, or ${MAX_WAITS} of waiting.`,
  })
}

const MAX_MESSAGE_LENGTH = 10_000

/**
 * An upstream's question in our form; `undefined` when it cannot be put to a person. It names its source, so that it
 * passes for nobody else's, and shows what would be hidden.
 */
export function readQuestion(params: unknown, source: string): Elicitation | undefined {
  if (!isWireObject(params)) return undefined
  const said = cleanText((textOf(params.message) ?? '').slice(0, MAX_MESSAGE_LENGTH))
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

type FormValue = string | number | boolean | string[]

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

/** Tells those who wait when a person has finished what an upstream sent them to (MCP-80). */
export class Completions {
  readonly #waiting = new Map<string, Set<() => void>>()

  complete(id: string): void {
    for (const go of this.#waiting.get(id) ?? []) go()
  }

  /** Resolves when it is complete, or when it was waited for long enough. */
  async wait(id: string, longestMs: number, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting)
    let go: () => void = () => undefined
    let timer: NodeJS.Timeout | undefined
    try {
      await new Promise<void>((resolve) => {
        go = resolve
        waiting.add(go)
        timer = setTimeout(go, longestMs)
        signal.addEventListener('abort', go, { once: true })
      })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', go)
      waiting.delete(go)
      if (waiting.size === 0) this.#waiting.delete(id)
    }
    signal.throwIfAborted()
  }
}
