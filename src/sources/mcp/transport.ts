import { JSON_BOUNDS, type JsonBounds, type JsonObject, type JsonValue } from '#kernel/base/json'

/**
 * The interface between a connection and the ways to carry its messages: Streamable HTTP and stdio. A transport moves
 * JSON values and enforces their bounds; it does not know what the messages mean.
 */

export type HeaderFields = Readonly<Record<string, string>>

/** What a message proves about its sender. */
export interface Credentials {
  readonly headers: HeaderFields
  /** Distinguishes credentials; empty if there are none. */
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

/** How one message is sent, and within which bounds its answer is read. */
export interface Delivery {
  /** Ends the exchange of the message. */
  readonly signal: AbortSignal
  /** `undefined` for those of the connection. */
  readonly credentials: Credentials | undefined
  /** Headers that repeat arguments of the call (MCP-48). */
  readonly headers: HeaderFields | undefined
  readonly bounds: MessageBounds
}

/** `answered`: the value answers the request of the delivery. `unreadable`: it contains no JSON-RPC message. */
export type Receipt = 'answered' | 'accepted' | 'unreadable'

export interface Receiver {
  /** Takes a message, or a batch of an old server. `via`: the request on whose exchange it arrived, if it is known. */
  receive(value: JsonValue | undefined, via: Delivery | undefined): Receipt
  /** The bounds for a message on a stream that all requests share. */
  bounds(): MessageBounds
  /** The server is gone, or the transport was closed. Called at most once. */
  lost(): void
}

export interface Transport {
  /** Over `http` each request has an exchange of its own; over `stdio` all share one stream. */
  readonly kind: 'http' | 'stdio'
  /** The session that the server opened (2025-11-25 and earlier). */
  readonly sessionId?: string | undefined
  /** Why the server was given up, if one of its messages exceeded the bounds. */
  readonly excess?: string | undefined
  start(receiver: Receiver): Promise<void>
  /** Over HTTP it settles when the exchange is over, so that no answer can follow; over stdio when the message is written. */
  send(message: JsonObject, delivery: Delivery): Promise<void>
  /** From now on every request names this revision (2025-11-25 and earlier). */
  adoptRevision?(revision: string): void
  /** Opens the stream of messages that belong to no request (MCP-24), if there is one. */
  listen?(): void
  close(): Promise<void>
}

/** How much one message of a server may hold. */
export interface MessageBounds {
  readonly maxBytes: number
  readonly json: JsonBounds
}

const MIB = 1_048_576
/** Allowance for the message around a value. */
const ENVELOPE = { depth: 16, values: 100 }
const MAX_DEPTH = JSON_BOUNDS.maxDepth + ENVELOPE.depth

/** The answer to a call may hold as much as the value of any tool. Transports bound its bytes. */
export const CALL_BOUNDS: MessageBounds = {
  maxBytes: Number.POSITIVE_INFINITY,
  json: { maxDepth: MAX_DEPTH, maxValues: JSON_BOUNDS.maxValues + ENVELOPE.values },
}

/** A page of a list, or the answer of a handshake: parsed in one step, during which other calls wait. */
export const PAGE_BOUNDS: MessageBounds = {
  maxBytes: 4 * MIB,
  json: { maxDepth: MAX_DEPTH, maxValues: 50_000 },
}

/** Messages of one batch (2025-03-26). */
export const MAX_BATCH = 1_000
