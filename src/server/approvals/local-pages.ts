import type { Authenticator } from '#auth/authenticator'
import { createStartToken } from '#auth/start-token'
import type { Settings } from '#config/settings'
import { pagesTokenFileIn, portOf } from '#config/to-settings'
import type { Listener } from '#egress/policy'
import type { Clock } from '#kernel/base/clock'
import type { Gateway } from '#kernel/call/gateway'
import { approvalStatusRoute } from '#protocols/otc/pages'
import { otcSettings } from '#protocols/otc/settings'
import { createOperatorAccess } from '#server/admin/access'
import { createApprovalRoutes } from '#server/admin/approvals'
import { createConsoleFiles } from '#server/console/files'
import { BrowserSessions } from '#server/console/sessions'
import { StartLinks, signInRoute } from '#server/console/start-links'
import { createHttpApp } from '#server/http/app'
import type { ServerLog } from '#server/telemetry/log'
import { createMetrics } from '#server/telemetry/metrics'
import { VERSION } from '#server/version'
import type { Store } from '#store/collet-store'
import { keepOutOfGit } from '#store/stores'
import { createApprovalPages } from './pages.ts'

/*
 * The approval pages of `collet mcp`, which serves no other pages over HTTP. They use any free port and have their own start token.
 * The stdio server opens them when a call first waits. If several processes use one store, each lists all waiting calls of the store.
 * Invariant: the pages listen only on loopback, and close with the process.
 */

export interface LocalPagesOptions {
  readonly settings: Pick<Settings, 'server' | 'dataFolder' | 'console'>
  readonly gateway: Pick<Gateway, 'approvals'>
  readonly store: Pick<Store, 'sign' | 'callers'>
  readonly authenticator: Authenticator
  readonly clock: Clock
  readonly log: ServerLog
}

export interface LocalPages {
  readonly url: string
  readonly listener: Listener
  close(): Promise<void>
}

const HOST = '127.0.0.1'
/** The MCP client that started this process waits only briefly for it to end. */
const CLOSE_MS = 500

export async function openLocalPages(options: LocalPagesOptions): Promise<LocalPages> {
  const { settings, gateway, store, authenticator, clock, log } = options
  const { approvals } = gateway
  let url = ''
  const publicUrl = (): string => url
  const startToken = createStartToken()
  const access = createOperatorAccess({ startToken, authenticator })
  const { callers } = store
  const sessions = new BrowserSessions({
    ...{ startToken, callers, clock, publicUrl },
    sign: (purpose, text) => store.sign(purpose, text),
  })
  const hasConsole = (): boolean => false
  const startLinks = new StartLinks({ startToken, sessions, callers, clock, publicUrl, hasConsole })
  const files = settings.console.enabled ? createConsoleFiles({ publicUrl }) : undefined
  const approvalPage = async (): Promise<string | undefined> => await files?.approvalPage()
  const { tls: _tls, publicUrl: _publicUrl, ...server } = settings.server
  const app = createHttpApp({
    routes: [
      ...createApprovalPages({ approvals, sessions, startLinks, publicUrl, approvalPage }),
      ...(files?.assetRoutes ?? []),
      approvalStatusRoute(gateway, otcSettings({ serverVersion: VERSION, clock })),
      ...createApprovalRoutes(access, { approvals, publicUrl, canSignIn: false }),
      signInRoute(startLinks, access),
    ],
    settings: { ...server, host: HOST, port: 0, publicUrl: undefined },
    timeouts: { closeMs: CLOSE_MS },
    metrics: createMetrics(),
    ...{ authenticator, log, clock },
    refusesForwarded: 'always',
  })
  try {
    url = await app.listen()
    await startToken.publish(pagesTokenFileIn(settings.dataFolder, url))
    keepOutOfGit(settings.dataFolder)
  } catch (error) {
    await app.close()
    throw error
  }
  return {
    url,
    listener: { host: HOST, port: portOf(new URL(url)) },
    async close() {
      await startToken.close()
      await app.close()
    },
  }
}
