import type { CallError } from '#core/call'
import { type Challenge, issuePhrase, type MissingRequirements } from '#core/errors'

const MOST_ISSUES = 20

/** What a model reads of a failed call: what is wrong, where, and what to do next (MCP-62). */
export function describeFailure(error: CallError, callId: string): string {
  const { issues = [], missing } = error.details ?? {}
  // The message tells the first ones itself.
  const further = issues.filter((issue) => !error.message.includes(issuePhrase(issue)))
  return [
    error.message,
    ...further.slice(0, MOST_ISSUES).map(issuePhrase),
    ...(further.length > MOST_ISSUES ? [`(and ${further.length - MOST_ISSUES} more)`] : []),
    ...(missing === undefined ? [] : describeMissing(missing, callId)),
    ...(error.additionalPromptContent === undefined ? [] : [error.additionalPromptContent]),
  ].join('\n')
}

/** T-11: callers that cannot be shown a page get its address, and the id under which the call goes on. */
function describeMissing(missing: MissingRequirements, callId: string): readonly string[] {
  const pages = pagesOf(missing)
  return [
    ...pages.map(({ challenge, message }) => `${message}: ${challenge.url}`),
    ...(missing.secrets ?? []).map(({ id }) => `Missing secret: ${id}`),
    ...(missing.userId === true ? ['Missing: the user the call is for.'] : []),
    ...(pages.length === 0 ? [] : [`Then call the tool again. Call id: ${callId}`]),
  ]
}

export interface Page {
  readonly key: string
  readonly message: string
  readonly challenge: Challenge
}

/** What a person has to open before the call can go on, each under the key an answer has. */
export function pagesOf({ approval, authorization = [] }: MissingRequirements): readonly Page[] {
  return [
    ...(approval === undefined ? [] : [{ key: 'approval', message: 'Approval needed', challenge: approval }]),
    ...authorization.map((challenge, place) => ({
      key: place === 0 ? 'authorization' : `authorization_${place + 1}`,
      message: `Authorization needed from ${challenge.provider}${scopesText(challenge.scopes)}`,
      challenge,
    })),
  ]
}

function scopesText(scopes: readonly string[]): string {
  return scopes.length === 0 ? '' : ` (${scopes.join(' ')})`
}
