import { escapeHtml, pageReply } from '#protocols/html-page'
import type { HttpRoute } from '#protocols/http-exchange'
import type { ConsentDesk } from './consent-desk.ts'

/** The pages of a consent besides `/challenges/:id`. Open: a ticket, a cookie and a sign-in decide, not an API key. */
export function consentRoutes(desk: ConsentDesk): readonly HttpRoute[] {
  return [
    pageRoute('/challenges/:id/start', (request) => desk.start(request)),
    pageRoute('/oauth/callback', (request) => desk.finish(request)),
  ]
}

function pageRoute(path: string, handle: HttpRoute['handle']): HttpRoute {
  return {
    method: 'GET',
    path,
    access: 'open',
    body: 'never',
    handle,
    refuse: (_request, error, status) =>
      pageReply(status, { title: 'This did not work', content: `<p>${escapeHtml(error.message)}</p>` }),
  }
}
