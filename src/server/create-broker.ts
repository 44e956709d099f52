import type { Settings } from '#config/settings'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import { OAuthBroker } from '#oauth/oauth-broker'
import { isLoopback } from './loopback.ts'

/** The providers of the config. Nobody is asked for consent where it could be given for somebody else unseen (rule 25). */
export function createBroker(
  { oauth, server }: Pick<Settings, 'oauth' | 'server'>,
  parts: { readonly fetch: typeof fetch; readonly clock: Clock; readonly log: Logger },
): OAuthBroker {
  const isOwnMachine =
    isLoopback(server.host) &&
    (server.publicUrl === undefined || isLoopback(new URL(server.publicUrl).hostname))
  const canBind = oauth.signIn !== undefined || isOwnMachine || oauth.allowUnboundConsent
  return new OAuthBroker({ settings: oauth, canBind, ...parts })
}
