import type { StoreErrorCode } from '#core/store-error'
import type { ChangeName } from './store-changes.ts'

/** What the commit thread is told when it starts. */
export interface CommitThreadData {
  readonly path: string
  readonly masterKey: Uint8Array
  readonly writer: string
  readonly lockFolder: string
}

/** Changes of one turn of the event loop, or the end. */
export type ToThread =
  | { readonly kind: 'changes'; readonly changes: readonly SentChange[] }
  | { readonly kind: 'close' }

export interface SentChange {
  readonly id: number
  readonly name: ChangeName
  // biome-ignore lint/suspicious/noExplicitAny: typed by `name` in the change table, on both sides of the border
  readonly change: any
}

/** What became of them, as many at a time as were committed together. */
export type FromThread =
  | { readonly kind: 'opened' }
  | { readonly kind: 'answers'; readonly answers: readonly Answer[] }
  | { readonly kind: 'committed'; readonly changes: number; readonly durationMs: number }
  | { readonly kind: 'closed'; readonly problem: Problem | undefined }

export interface Answer {
  readonly id: number
  readonly result?: unknown
  readonly problem?: Problem
}

/** An error that can cross a thread border. */
export interface Problem {
  readonly code: StoreErrorCode
  readonly message: string
}
