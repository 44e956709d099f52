import type { StatefulContext } from '#core/tool'
import { type Answer, type Question, type SentResponse, sentError } from './messages.ts'

/** Does for a pack's process what leaves the server: with the call's own context, so limits and signal are the call's. */
export async function answerQuestion(question: Question, context: StatefulContext<unknown>): Promise<Answer> {
  try {
    if (question.what === 'elicit') return { ok: true, value: await context.elicit(question.question) }
    const { url, init } = question
    const { body, ...rest } = init
    const headers = init.headers.map(([name, text]): [string, string] => [name, text])
    const request = { ...rest, headers, ...(body === undefined ? {} : { body: Buffer.from(body, 'base64') }) }
    return { ok: true, value: await toSent(await context.fetch(url, request)) }
  } catch (error) {
    return { ok: false, error: sentError(error) }
  }
}

async function toSent(response: Response): Promise<SentResponse> {
  const { status, statusText, headers } = response
  const body = Buffer.from(await response.arrayBuffer()).toString('base64')
  return { status, statusText, headers: [...headers], body }
}
