import type { AskCaller, CallerQuestion } from '#core/caller-question'
import { isToolError } from '#core/errors'
import type { Elicitation, ElicitationAnswer } from '#core/ports/elicitation'

/** Puts a question to the person behind a call; whoever cannot be asked it declines. */
export async function elicit(
  ask: AskCaller | undefined,
  question: Elicitation,
  ordinal: number,
): Promise<ElicitationAnswer> {
  if (ask === undefined) return { action: 'decline' }
  try {
    const { action, content } = await ask(toQuestion(question, ordinal))
    if (action !== 'accept') return { action }
    return content === undefined ? { action } : { action, content }
  } catch (error) {
    if (isToolError(error)) return { action: 'decline' }
    throw error
  }
}

/** Questions of one run come in the same order in every attempt, so their number tells them apart. */
function toQuestion(question: Elicitation, ordinal: number): CallerQuestion {
  const { message } = question
  return question.mode === 'form'
    ? { kind: 'form', key: `form-${ordinal}`, message, schema: question.schema }
    : { kind: 'url', key: question.id === '' ? `url-${ordinal}` : question.id, message, url: question.url }
}
