import type { ChallengeRecord } from '#core/ports/store'
import { escapeHtml, htmlPage } from './html-page.ts'
import type { WireChallengeStatus } from './wire.ts'

const STATUS_TEXT = {
  pending: 'This authorization has not been given yet.',
  completed: 'This authorization has been given. You can go back to your agent.',
  failed: 'This request has ended without an authorization. Ask your agent to call the tool again.',
} satisfies Record<WireChallengeStatus, string>

/** What a person sees behind a challenge's `url`: there is no sign-in service for the provider yet (T-16). */
export function challengePage(challenge: ChallengeRecord, status: WireChallengeStatus): string {
  const provider = escapeHtml(challenge.provider)
  const scopes = challenge.scopes.length === 0 ? 'none named' : escapeHtml(challenge.scopes.join(', '))
  const example = JSON.stringify(
    { context: { authorization: [{ id: challenge.provider, token: 'YOUR TOKEN' }] } },
    undefined,
    2,
  )
  return htmlPage(
    `Authorization for ${provider}`,
    `<p>${STATUS_TEXT[status]}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(challenge.tool)}</dd><dt>Provider</dt><dd>${provider}</dd><dt>Scopes</dt><dd>${scopes}</dd></dl>
${status === 'pending' ? howToPass(provider, escapeHtml(example)) : ''}`,
  )
}

export function unknownChallengePage(): string {
  return htmlPage(
    'Unknown request',
    '<p>There is no such authorization request, or it has been forgotten.</p>',
  )
}

function howToPass(provider: string, example: string): string {
  return `<p>This server has no sign-in service for ${provider} yet. Get a token from the provider yourself and let your agent send it with the call:</p>
<pre>${example}</pre>`
}
