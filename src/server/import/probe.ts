/** What a look at a server needs. */
export interface Probe {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  /** A key or token of the operator for that server. */
  readonly apiKey: string | undefined
}
