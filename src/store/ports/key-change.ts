/** The keys that everything is sealed and signed under come in generations; a change of the master key makes the next. */
export interface KeyChange {
  /** Takes up what other processes did, and says what this one has taken up. Asked about once a second. */
  follow(): Promise<void>
  status(): Promise<KeyStatus>
  /** Does what is left to do, beside whatever else runs. It may be cut at any moment and asked for again. */
  rotate(work: KeyChangeWork): Promise<KeyChangeEnd>
}

export interface KeyStatus {
  /** What new things are sealed under. */
  readonly generation: number
  readonly hasOldKey: boolean
  /** `none` when no change is under way; `not begun` while the store is under the old key. */
  readonly step: 'none' | 'not begun' | 'announced' | 'sealing'
  /** Rows that are under earlier keys and will not stay there. */
  readonly due: number
  /** The next step waits for these. */
  readonly writers: readonly LaggingWriter[]
}

interface KeyChangeWork {
  readonly by: string
  nowMs(): number
  tell(progress: KeyProgress): void
  /** How long other writers may take to follow. */
  readonly patienceMs: number
}

export type KeyProgress =
  | { readonly step: 'announced' }
  | { readonly step: 'sealing'; readonly what: string; readonly done: number; readonly total: number }

/** A writer that lives and holds up a change of the key. */
export interface LaggingWriter {
  readonly writer: string
  /** `host:port pid 1234`; absent where an earlier version started it. */
  readonly place: string | undefined
  readonly startedMs: number
}

export type KeyChangeEnd =
  | { readonly kind: 'done'; readonly generation: number; readonly resealed: number }
  /** Everything is under the key already. */
  | { readonly kind: 'nothing' }
  /** These were started without the new key: nothing was changed. */
  | { readonly kind: 'lacking'; readonly writers: readonly LaggingWriter[] }
  /** These have not followed in time; what was done stays done. */
  | { readonly kind: 'waiting'; readonly writers: readonly LaggingWriter[] }
