import { setTimeout as pause } from 'node:timers/promises'
import { ProtocolError } from '@modelcontextprotocol/client'
import { fault } from '#core/errors'
import type { JsonObject, JsonValue } from '#core/json'
import type { CallScope } from './call-scope.ts'
import type { Completions } from './completions.ts'
import type { Connection } from './connection.ts'
import { explain, isStale, StaleConnection } from './explain.ts'
import { answerOf, askCaller } from './questions.ts'
import { isWireArray, isWireObject, textOf } from './wire.ts'

/** Rounds of questions in one call, and questions in one round. */
const MOST_ROUNDS = 10
const MOST_QUESTIONS = 20
/** Rounds in which the upstream only asks for patience. */
const MOST_WAITS = 500
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 5000
/** How long a person may take at the page of an upstream, before the call is tried again. */
const LONGEST_VISIT_MS = 30_000
const URL_NEEDED = -32_042

export interface ToolCall {
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
        if (rounds > MOST_ROUNDS) throw tooManyRounds()
        continue
      }
      if (isFirst && isStale(error, connection) && !scope.context.signal.aborted)
        throw new StaleConnection('the connection was refused', { cause: error })
      throw explain(error, scope, !isFirst)
    }
    if (result.resultType !== 'input_required') return result
    const questions = isWireObject(result.inputRequests) ? Object.entries(result.inputRequests) : []
    const state = textOf(result.requestState)
    if (questions.length === 0) {
      waits += 1
      if (waits > MOST_WAITS) throw tooManyRounds()
      const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(waits - 1, 8))
      await pause(waitMs, undefined, { signal: scope.context.signal }).catch((error: unknown) => {
        throw explain(error, scope, true)
      })
    } else {
      rounds += 1
      if (rounds > MOST_ROUNDS || questions.length > MOST_QUESTIONS) throw tooManyRounds()
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
  if (visits.length === 0 || visits.length > MOST_QUESTIONS) return false
  for (const visit of visits) {
    if (!isWireObject(visit)) return false
    const { signal } = scope.context
    const id = textOf(visit.elicitationId) ?? ''
    const completed = new AbortController()
    // Heard from the start: the person may be done before the answer is here.
    const done = completions.wait(id, LONGEST_VISIT_MS, AbortSignal.any([signal, completed.signal]))
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
    developerMessage: `More than ${MOST_ROUNDS} rounds of questions, ${MOST_QUESTIONS} in one, or ${MOST_WAITS} of waiting.`,
  })
}
