import type { ChallengeRecord } from '#core/ports/store'
import { html, pageReply } from '#protocols/html-page'
import type { HttpReply } from '#protocols/http-exchange'

type Headers = Readonly<Record<string, string>>

/** Before every consent: whoever reads it must see for whom the authorization would be (rule 25). */
export function askingPage(
  challenge: ChallengeRecord,
  asked: { readonly scopes: readonly string[]; readonly startUrl: string },
  headers: Headers,
): HttpReply {
  const { principal, tenant, tool, provider, user } = challenge
  const rows = [
    ['Caller', principal],
    ['Tenant', tenant],
    ['For', user === '' ? 'the caller itself' : 'a user of the caller'],
    ['Tool', tool],
    ['Provider', provider],
    ['Scopes', asked.scopes.length === 0 ? 'none named' : asked.scopes.join(', ')],
  ]
  const list = rows.map(([name = '', text = '']) => html`<dt>${name}</dt><dd>${text}</dd>`)
  const content = html`<p>The caller below will be able to use your account at ${provider}. Continue only if you have just asked it to do something.</p>
<dl>${list}</dl>
<p><a href="${asked.startUrl}" rel="noreferrer">Continue to ${provider}</a></p>`
  return pageReply(200, { title: `Authorization for ${provider}`, content }, headers)
}

export function completedPage({ provider }: ChallengeRecord, headers: Headers): HttpReply {
  return textPage(
    200,
    `Authorization for ${provider}`,
    'Access has been granted. You can go back to your agent.',
    headers,
  )
}

export function deniedPage({ provider }: ChallengeRecord, headers: Headers): HttpReply {
  return textPage(
    403,
    `Authorization for ${provider}`,
    'Access was not granted. Nothing was stored. To try again, ask your agent to call the tool again.',
    headers,
  )
}

export function tooLittlePage({ provider }: ChallengeRecord, headers: Headers): HttpReply {
  return textPage(
    403,
    `Authorization for ${provider}`,
    'The provider granted less than the tool needs. To try again, ask your agent to call the tool again.',
    headers,
  )
}

/** One text for every return that cannot be placed: who guesses learns nothing from it. */
export function unknownReturnPage(): HttpReply {
  return textPage(
    400,
    'This link does not work',
    'It has already been used, has expired, or was opened in another browser first. Open the link from your agent again.',
    {},
  )
}

export function providerFailedPage(name: string, headers: Headers = {}): HttpReply {
  return textPage(
    502,
    'No usable answer',
    `${name} did not answer as expected. Nothing was stored. Open the link from your agent again later.`,
    headers,
  )
}

export function wrongUserPage(againUrl: string, headers: Headers): HttpReply {
  const content = html`<p>You are signed in as someone other than the user this authorization is for. Nothing was stored.</p>
<p><a href="${againUrl}" rel="noreferrer">Sign in as another user</a></p>`
  return pageReply(403, { title: 'Not for this user', content }, headers)
}

function textPage(status: number, title: string, text: string, headers: Headers): HttpReply {
  return pageReply(status, { title, content: html`<p>${text}</p>` }, headers)
}
