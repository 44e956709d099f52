import { escapeHtml, pageReply } from '#protocols/html-page'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import type { ConsentDesk } from './consent-desk.ts'
import { unknownReturnPage } from './consent-pages.ts'
import type { Arrival, RoundTrips } from './round-trips.ts'

export interface ConsentRoutesOptions {
  readonly consents: ConsentDesk
  readonly trips: RoundTrips
  /** Takes approvers who come back from the sign-in. */
  finishApprover(arrival: Arrival): Promise<HttpReply>
}

/** The pages of a consent besides `/challenges/:id`. Open: a ticket, a cookie and a sign-in decide, not an API key. */
export function consentRoutes(options: ConsentRoutesOptions): readonly HttpRoute[] {
  return [
    pageRoute('/challenges/:id/start', (request) => options.consents.start(request)),
    pageRoute('/oauth/callback', (request) => finish(request, options)),
  ]
}

async function finish(
  request: HttpRequest,
  { consents, trips, finishApprover }: ConsentRoutesOptions,
): Promise<HttpReply> {
  const arrival = await trips.arrive(request)
  if (arrival === undefined) return unknownReturnPage()
  return await (arrival.consent.stage === 'approver' ? finishApprover(arrival) : consents.finish(arrival))
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
