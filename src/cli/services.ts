import type { ColletClient } from '#client/index'
import type { Settings } from '#config/settings'
import type { JournalHead } from '#core/journal/journal-group'
import type { Store } from '#core/ports/store'

export interface RunningServer {
  readonly url: string
  readonly startTokenFile: string | undefined
  /** Drains, then cancels what still runs. */
  close(): Promise<void>
}

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
  /** What the check cannot see, in words (rule 15). */
  readonly cannotSee: readonly string[]
}

/** The rooms behind the commands. They are loaded when first used, so that `collet --help` is quick. */
export interface Services {
  startServer(settings: Settings, options: { readonly allowAnonymous: boolean }): Promise<RunningServer>
  /** Opens for reading and settling; never recovers, never makes a key (rule 17). */
  openStore(access: StoreAccess): Promise<Store>
  verifyJournal(access: StoreAccess, kept: readonly JournalHead[]): Promise<JournalVerification>
  connect(
    url: string,
    options: { readonly apiKey: string | undefined },
  ): Promise<Pick<ColletClient, 'list' | 'tryCall'>>
  /** One sentence for each credential that is easy to guess (OTC-103). */
  findWeakCredentials(auth: Settings['auth']): Promise<readonly string[]>
  readonly fetch: typeof fetch
}
