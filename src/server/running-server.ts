/**
 * The types of a server that is started from code: the options of `startServer`, and the handle that it returns. The command line, the
 * embedded `serve` and the handler for other frameworks use these types; `start-server.ts` implements them.
 */

import type { Settings } from '#config/settings'
import type { Secret } from '#kernel/base/secret'
import type { CatalogChanges } from '#kernel/tool/catalog-changes'
import type { Tool } from '#kernel/tool/tool'
import type { HttpRoute } from '#protocols/http-exchange'
import type { ProtocolOptions } from '#protocols/list'
import type { ProtocolServices } from '#protocols/protocol'
import type { SourceView } from '#sources/kit/sources'
import type { Store } from '#store/collet-store'
import type { HttpApp, PortSharing } from './http/app.ts'
import type { ServerRoute } from './http/router.ts'
import type { ConfigSource, Reloaded } from './reload.ts'
import type { LentSecrets, Services } from './services.ts'
import type { ServerLog } from './telemetry/log.ts'
import type { ShownMetrics } from './telemetry/metrics-routes.ts'

export interface StartOptions {
  /** Serve other machines although no credential is configured. */
  readonly allowAnonymous?: boolean
  readonly log?: ServerLog
  readonly graceMs?: number
  /** Where the settings came from; needed to reload them. */
  readonly config?: ConfigSource
  /** Options of individual protocols. */
  readonly protocols?: ProtocolOptions
  /** Another listener receives the requests, at this address; no port is opened. */
  readonly mountedAt?: string
  /** Announces changes of tools to the server while it runs. */
  readonly catalogChanges?: CatalogChanges
  /** Present if this process is one of several workers of one server. */
  readonly worker?: WorkerShare
  /** Present if the author of the tools is their only caller, on this machine: callers then see what tools throw. */
  readonly developing?: { readonly folder: string; readonly secrets: LentSecrets }
  /** Folder of the built console; default: the folder in this package. */
  readonly consoleFolder?: string
  /** Tools and routes for a conformance suite; only tests set it. */
  readonly conformance?: Conformance
}

/** What the workers of one server share. */
export interface WorkerShare {
  readonly sharing: PortSharing
  /** The start token that every worker accepts. */
  readonly startToken: Secret
  /** Returns the metrics of all workers; `own` are those of this worker. */
  gatherMetrics(own: ShownMetrics): ShownMetrics
}

/** Tools and routes that a conformance suite needs in a server under test. */
export interface Conformance {
  readonly tools: readonly Tool[]
  routes(host: ConformanceHost): readonly HttpRoute[]
}

interface ConformanceHost extends ProtocolServices, Pick<Services, 'fetch' | 'noteDenial'> {
  readonly store: Store
  readonly settings: Settings
}

export interface RunningServer {
  readonly url: string
  /** Address of the separate listener for `/metrics`, if there is one. */
  readonly metricsUrl?: string | undefined
  readonly startTokenFile: string
  /** Absent if the console is turned off or not built. */
  readonly consoleUrl?: string | undefined
  /** Signs in the person who opens it, once; absent if other machines can reach the server. */
  readonly signInUrl?: string | undefined
  /** All routes, for tests that try every route. */
  readonly routes: readonly Pick<ServerRoute, 'method' | 'path'>[]
  /** Problems that do not prevent the start: weak credentials on loopback, names in the config that select nothing. */
  readonly warnings: readonly string[]
  /** Whether callers need a credential. */
  readonly isKeyed: boolean
  counts(): ServedCounts
  /** Waits for the first reading of a source, successful or not; `undefined` if no source has this key. */
  sourceRead(key: string): Promise<SourceView | undefined>
  /** Calls the listener after the first reading of each source that is added from now on. */
  onSourceAdded(listener: (source: SourceView) => void): void
  isReady(): boolean
  /** Answers a request that another listener received. */
  handle: HttpApp['handle']
  /** Applies settings that may change while calls run, or throws and changes nothing. */
  reload(next: Settings): Promise<Reloaded>
  /** Reads the config again and applies it. */
  readAgain(): Promise<Reloaded>
  /** Reports 503 at `/health` for load balancers and still accepts calls; resolves after `server.drainMs`. */
  announceStop(): Promise<void>
  /** Accepts no new calls; resolves when no call is running. */
  drain(): Promise<void>
  /** Accepts no new calls, gives running calls the grace time to finish, cancels the rest, closes everything. */
  close(): Promise<void>
}

/** Numbers of the tools and sources that are served now. */
export interface ServedCounts {
  /** Number of tools whose scopes no caller can have, as known at the start. */
  readonly unreachable?: number | undefined
  /** Number of tools; several versions of one tool count once. */
  readonly tools: number
  readonly versions: number
  /** Tokens that a model reads in a long list of tools, and in search mode; absent if the list is short or search mode is on. */
  readonly listTokens?: { readonly list: number; readonly search: number } | undefined
  readonly sources: number
  /** Keys of sources whose first reading has not ended. */
  readonly starting: readonly string[]
}
