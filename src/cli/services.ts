import type { ColletClient, RequirementResolvers } from '#client/index'
import type { Settings } from '#config/settings'
import type { JournalHead } from '#core/journal/events'
import type { Store } from '#core/ports/store'
import type { OpenToolServing } from '#server/protocol-routes'
import type { RunningServer } from '#server/start-server'
import type { StdioServing, StdioStart } from '#server/start-stdio'

/** How an operator's command reaches a store. */
export interface StoreAccess {
  /** `sqlite:PATH`, absolute. */
  readonly url: string
  readonly dataFolder: string
  readonly masterKey: Uint8Array | undefined
}

export interface JournalVerification {
  readonly ok: boolean
  readonly groups: number
  readonly events: number
  readonly chains: number
  readonly firstBad?: { readonly writer: string; readonly group: number; readonly reason: string } | undefined
  readonly heads: readonly JournalHead[]
  /** Rows that decide: how many were checked, and which do not hold. */
  readonly rows: number
  readonly badRows: readonly { readonly row: string; readonly reason: string }[]
  /** What the check cannot see, in words (rule 15). */
  readonly cannotSee: readonly string[]
}

/** The rooms behind the commands. They are loaded when first used, so that `collet --help` is quick. */
export interface Services {
  startServer(
    settings: Settings,
    options: {
      readonly allowAnonymous: boolean
      readonly testSeams?: boolean
      readonly opentool?: OpenToolServing
    },
  ): Promise<Pick<RunningServer, 'url' | 'startTokenFile' | 'warnings' | 'counts' | 'close'>>
  /** Serves MCP on a pair of streams, without a listener. */
  startStdio(settings: Settings, options: StdioStart): Promise<StdioServing>
  /** Opens for reading and settling; never recovers, never makes a key (rule 17). */
  openStore(access: StoreAccess): Promise<Store>
  /** Rejects when a server could not read or write this store; writes nothing, not even to the journal. */
  checkWritable(access: StoreAccess): Promise<void>
  /** Copies the database to a new file; the store may be in use. */
  backUp(access: StoreAccess, file: string): Promise<void>
  verifyJournal(access: StoreAccess, kept: readonly JournalHead[]): Promise<JournalVerification>
  connect(
    url: string,
    options: { readonly apiKey: string | undefined; readonly requirements?: RequirementResolvers },
  ): Promise<Pick<ColletClient, 'list' | 'get' | 'tryCall'>>
  readonly fetch: typeof fetch
}
