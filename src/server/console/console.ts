import type { Authenticator } from '#auth/authenticator'
import type { StartToken } from '#auth/start-token'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { OAuthBroker } from '#oauth/broker'
import type { ServerHost } from '#server/host'
import type { ServerRoute } from '#server/http/router'
import type { ServerPart } from '#server/part'
import type { Store } from '#store/collet-store'
import { createConsoleFiles } from './files.ts'
import { createOidcSignIn } from './oidc-sign-in.ts'
import { createSessionRoutes } from './session-routes.ts'
import { BrowserSessions } from './sessions.ts'
import { StartLinks, signInRoute } from './start-links.ts'

/*
 * Creates the console from its files, sessions, start links and sign-ins. The composition root opens it as one part.
 * Invariant: the console reads and changes data only through the admin API.
 */

export type Console = ReturnType<typeof createConsole>

export function openConsole({ console: { routes, startLinks }, access }: ServerHost): ServerPart {
  return { routes: [...routes, signInRoute(startLinks, access)] }
}

export function createConsole(options: {
  readonly settings: Pick<Settings, 'console' | 'server'>
  readonly store: Pick<Store, 'sign' | 'callers'>
  readonly authenticator: Authenticator
  readonly startToken: StartToken
  readonly broker: Pick<OAuthBroker, 'clientOf'>
  readonly log: Logger
  readonly clock: Clock
  publicUrl(): string
  /** True if only this machine can reach the server; a start link then signs its user in. */
  readonly hasLinks: boolean
  /** The folder of the built console; default: the one in this package. */
  readonly folder?: string | undefined
}) {
  const { store, authenticator, startToken, broker, clock, log, publicUrl, folder } = options
  const { signIn, enabled } = options.settings.console
  const { callers } = store
  const files = enabled ? createConsoleFiles({ publicUrl, folder }) : undefined
  const isServed = (): boolean => files?.isBuilt() === true
  const sessions = new BrowserSessions({
    ...{ startToken, callers, clock, publicUrl },
    sign: (purpose, text) => store.sign(purpose, text),
  })
  /** Absent if other machines can reach the server, because a start link is only for the user of this machine. */
  const startLinks = options.hasLinks
    ? new StartLinks({ startToken, sessions, callers, clock, publicUrl, hasConsole: isServed })
    : undefined
  const oidcRoutes =
    files === undefined || signIn === undefined
      ? []
      : createOidcSignIn({
          settings: signIn,
          client: broker.clientOf(signIn),
          sessions,
          authenticator,
          log,
          publicUrl,
        })
  const hasLinks = startLinks !== undefined
  const sessionOptions = { sessions, authenticator, startToken, publicUrl, hasLinks, issuer: signIn?.issuer }
  const routes: readonly ServerRoute[] =
    files === undefined ? [] : [...files.routes, ...createSessionRoutes(sessionOptions), ...oidcRoutes]
  /** The built page of one approval; `undefined` if the console is off or not built. */
  const approvalPage = async (): Promise<string | undefined> => await files?.approvalPage()
  return { sessions, startLinks, isServed, approvalPage, routes }
}
