export type StoreErrorCode =
  /** The write did not happen. */
  | 'not_written'
  /** The write may or may not have happened. */
  | 'unknown'
  /** Something exists but cannot be read: for the operator, never "not found" (rule 14). */
  | 'unreadable'
  | 'full'

/** A store that cannot do what it was asked. Stays inside the server; callers see `not_ready` or `outcome_unknown`. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly code: StoreErrorCode

  constructor(code: StoreErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
