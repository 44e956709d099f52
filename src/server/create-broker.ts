import type { Settings } from '#config/settings'
import type { Clock, Logger } from '#core/runtime'
import { OAuthBroker } from '#oauth/broker'
import { isLoopback } from './loopback.ts'

/** The providers of the config. Nobody is asked for consent where it could be given for somebody else unseen (rule 25). */
export function createBroker(
  { oauth, server }: Pick<Settings, 'oauth' | 'server'>,
  parts: { readonly fetch: typeof fetch; readonly clock: Clock; readonly log: Logger },
): OAuthBroker {
  const canBind = oauth.signIn !== undefined || isOwnMachine(server) || oauth.allowUnboundConsent
  return new OAuthBroker({ settings: oauth, canBind, ...parts })
}

/** What an operator should know about who may consent. */
export function findConsentWarnings({
  oauth,
  server,
}: Pick<Settings, 'oauth' | 'server'>): readonly string[] {
  const names = Object.keys(oauth.providers)
  if (names.length === 0 || oauth.signIn !== undefined || isOwnMachine(server)) return []
  return oauth.allowUnboundConsent
    ? [
        'Whoever has the link of a challenge can consent, because oauth.allowUnboundConsent is set and oauth.signIn is not.',
      ]
    : [`Nobody can be asked for access to ${names.join(', ')}: beyond this machine that needs oauth.signIn.`]
}

function isOwnMachine({ host, publicUrl }: Settings['server']): boolean {
  return isLoopback(host) && (publicUrl === undefined || isLoopback(new URL(publicUrl).hostname))
}
