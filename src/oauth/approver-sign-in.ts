import type { OAuthSettings } from '#config/settings'
import type { Store } from '#core/ports/store'
import type { Logger } from '#core/runtime'
import type { HttpReply } from '#protocols/http-exchange'
import { signedInName, signedInPrincipal } from './is-consenter.ts'
import type { OAuthBroker } from './oauth-broker.ts'
import type { Arrival, RoundTrips } from './round-trips.ts'

export interface ApproverSignInOptions {
  readonly store: Pick<Store, 'digest'>
  readonly broker: OAuthBroker
  readonly settings: OAuthSettings
  readonly trips: RoundTrips
  readonly log: Logger
}

/** Who came back from the sign-in. */
export type SignedIn =
  | {
      readonly kind: 'signed_in'
      /** Of the link that was opened. */
      readonly token: string
      /** What links name approvers by. */
      readonly name: string
      /** Who it is on every other way in (rule 3). */
      readonly principal: string
    }
  | { readonly kind: 'failed'; readonly token: string }

/** The sign-in of consents, for approvers whose link alone may not decide (rule 23). */
export class ApproverSignIn {
  readonly #options: ApproverSignInOptions

  constructor(options: ApproverSignInOptions) {
    this.#options = options
  }

  /** Whether the config has a sign-in at all. */
  get isThere(): boolean {
    return this.#options.broker.signIn !== undefined
  }

  /** Sends the browser to the sign-in; `undefined` when there is none, or it does not answer. */
  async start(
    link: { readonly tenant: string; readonly token: string },
    { asOther }: { readonly asOther: boolean },
  ): Promise<HttpReply | undefined> {
    const { broker, settings, trips, store } = this.#options
    if (broker.signIn === undefined || settings.signIn === undefined) return undefined
    const { tenant, token } = link
    const parameters: Record<string, string> = asOther ? { prompt: 'login' } : {}
    return await trips.depart(
      { tenant, challenge: store.digest(`approver link:${token}`), stage: 'approver', note: token },
      { client: broker.signIn, scopes: settings.signIn.scopes, parameters },
    )
  }

  async finish({ back, note: token = '' }: Pick<Arrival, 'back' | 'note'>): Promise<SignedIn> {
    const { broker, settings, log } = this.#options
    const { signIn } = settings
    if (broker.signIn === undefined || signIn === undefined) return { kind: 'failed', token }
    const answer = await broker.signIn.exchange(back, { scopes: signIn.scopes, identify: true })
    if (answer.kind === 'failed') log.warn({ reason: answer.reason }, 'a sign-in failed')
    const claims = answer.kind === 'tokens' ? (answer.claims ?? {}) : {}
    const name = signedInName(signIn, claims)
    const principal = signedInPrincipal(claims)
    if (name === undefined || principal === undefined) return { kind: 'failed', token }
    return { kind: 'signed_in', token, name, principal }
  }
}
