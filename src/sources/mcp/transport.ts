import { JSON_BOUNDS, type JsonBounds, type JsonObject, type JsonValue } from '#kernel/base/json'

/**
 * The interface between a connection and its transport, Streamable HTTP or stdio. `http.ts` and `stdio.ts` implement it.
 * A transport sends and receives JSON values and enforces their bounds.
 * Invariant: a transport does not interpret messages beyond what its headers and framing need.
 */

export type HeaderFields = Readonly<Record<string, string>>

/** The credentials with which a message is sent. */
export interface Credentials {
  readonly headers: HeaderFields
  /** Different for different credentials; empty if there are none. */
  readonly fingerprint: string
  /** Present if the token in the headers is bound to a key. */
  readonly prover?: Prover | undefined
}

/** Makes the proof for one request with a bound token (MCP-165). */
export interface Prover {
  prove(request: {
    readonly method: string
    readonly url: URL
    readonly nonce: string | undefined
  }): Promise<string>
}

/** The options for sending one message, and the bounds of its answer. */
export interface Delivery {
  /** Ends the exchange of the message. */
  readonly signal: AbortSignal
  /** `undefined` for the connection's own. */
  readonly credentials: Credentials | undefined
  /** Headers that repeat arguments of the call (MCP-48). */
  readonly headers: HeaderFields | undefined
  readonly bounds: MessageBounds
}

/** `answered`: the value answers the request of the delivery. `unreadable`: it contains no JSON-RPC message. */
export type Receipt = 'answered' | 'accepted' | 'unreadable'

export interface Receiver {
  /** Takes a message, or a batch from an old server. `via`: the request on whose exchange it arrived, if known. */
  receive(value: JsonValue | undefined, via: Delivery | undefined): Receipt
  /** The bounds for a message on a stream that all requests share. */
  bounds(): MessageBounds
  /** The server is gone, or the transport was closed. Called at most once. */
  lost(): void
}

export interface Transport {
  /** Over `http` each request has its own exchange; over `stdio` all requests share one stream. */
  readonly kind: 'http' | 'stdio'
  /** The session that the server opened (2025-11-25 and earlier). */
  readonly sessionId?: string | undefined
  /** Describes the message that exceeded the bounds, after which the transport was closed. */
  readonly excess?: string | undefined
  start(receiver: Receiver): Promise<void>
  /** Over HTTP it settles when the exchange is over and no answer can follow; over stdio when the message is written. */
  send(message: JsonObject, delivery: Delivery): Promise<void>
  /** Adds this revision to every later request (2025-11-25 and earlier). */
  adoptRevision?(revision: string): void
  /** Opens the stream of messages that belong to no request (MCP-24), if there is one. */
  listen?(): void
  /** Passes what the server's program writes to its stderr, without secrets; returns a function that ends it. Only over stdio. */
  onStderr?(listener: (text: string) => void): () => void
  close(): Promise<void>
}

/** The maximum size of one message from a server. */
export interface MessageBounds {
  readonly maxBytes: number
  readonly json: JsonBounds
}

const MIB = 1_048_576
/** Allowance for the message that contains a value. */
const ENVELOPE = { depth: 16, values: 100 }
const MAX_DEPTH = JSON_BOUNDS.maxDepth + ENVELOPE.depth

/** The answer to a call may be as large as the value of any tool. Transports limit its bytes. */
export const CALL_BOUNDS: MessageBounds = {
  maxBytes: Number.POSITIVE_INFINITY,
  json: { maxDepth: MAX_DEPTH, maxValues: JSON_BOUNDS.maxValues + ENVELOPE.values },
}

/** A page of a list or the answer of a handshake. It is parsed in one step, which blocks other calls. */
export const PAGE_BOUNDS: MessageBounds = {
  maxBytes: 4 * MIB,
  json: { maxDepth: MAX_DEPTH, maxValues: 50_000 },
}

/** Maximum number of messages in one batch (2025-03-26). */
export const MAX_BATCH = 1_000
