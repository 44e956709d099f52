import { hash } from 'node:crypto'
import type { ChallengeRecord } from '#core/ports/store'
import type { WireChallengeStatus } from './wire.ts'

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}h1{font-size:1.4rem}pre{background:#f3f3f3;padding:1rem;overflow:auto}dt{font-weight:600}@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}pre{background:#262626}}'

/** Nothing may load, run, frame or submit; only the one style above is applied. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
} as const

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
  return page(
    `Authorization for ${provider}`,
    `<p>${STATUS_TEXT[status]}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(challenge.tool)}</dd><dt>Provider</dt><dd>${provider}</dd><dt>Scopes</dt><dd>${scopes}</dd></dl>
${status === 'pending' ? howToPass(provider, escapeHtml(example)) : ''}`,
  )
}

export function unknownChallengePage(): string {
  return page('Unknown request', '<p>There is no such authorization request, or it has been forgotten.</p>')
}

function howToPass(provider: string, example: string): string {
  return `<p>This server has no sign-in service for ${provider} yet. Get a token from the provider yourself and let your agent send it with the call:</p>
<pre>${example}</pre>`
}

function page(title: string, content: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head>
<body><h1>${title}</h1>
${content}
</body></html>
`
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
}
