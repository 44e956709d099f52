import type { z } from 'zod'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { ChallengeRecord } from '#kernel/call/stages'
import type { ToolSearch } from '#search/tool-search'
import type { ConsentObstacle } from '#stages/credentials/consent-obstacles'
import type { Store } from '#store/collet-store'
import type { HttpReply, HttpRequest, HttpRoute } from './http-exchange.ts'
import type { TraceContext } from './trace-context.ts'

/*
 * The interface between the server and a protocol. Each folder of `src/protocols` exports one `Protocol` object, and `list.ts` lists
 * them. The server calls `serve` once at start.
 * Invariant: a protocol reaches the server only through `ProtocolServices`.
 */

/** The config section, root, headers and routes of one protocol. */
export interface Protocol<Settings, Options = object> {
  /** Members of its config section with their defaults. */
  readonly settings: z.ZodRawShape
  /** The path that clients name as the resource of an access token (RFC 9728). */
  readonly root: string
  /** Headers that pages of other origins may send and read, besides those of every protocol. */
  readonly headers: { readonly sent: readonly string[]; readonly read: readonly string[] }
  /**
   * Opens the protocol. `settings` contains all sections of the config; a protocol declares the sections that it reads.
   * `options` contains the options that a command adds, by protocol.
   */
  serve(settings: Settings, services: ProtocolServices, options?: Options): Promise<ServedProtocol>
}

export interface ServedProtocol {
  readonly routes: readonly HttpRoute[]
  /** Ends streams that would keep connections open. */
  close?(): void
}

/** Services of the server that a protocol may use. */
export interface ProtocolServices {
  readonly gateway: Gateway
  /** The part of the store in which protocols keep sessions, questions and idempotent requests. */
  readonly store: Pick<
    Store,
    'callers' | 'requests' | 'tasks' | 'writer' | 'digest' | 'isWriterAlive' | 'sign'
  >
  readonly clock: Clock
  readonly log: Logger
  readonly serverVersion: string
  /** True if callers need a credential. */
  readonly isClosed: boolean
  /** Base URL at which callers reach this server. */
  publicUrl(): string
  /** URL of the metadata document that names the token issuers for a path; absent without an issuer. */
  readonly metadataUrl?: ((path: string) => string) | undefined
  readonly consents?: Consents
  /** Absent if no telemetry is exported. */
  readonly operations?: OperationLog | undefined
  /** Searches tools by text; without it lists ignore `q`. */
  readonly search?: ToolSearch | undefined
  /** Called when a tool is looked up by its catalog id and is unknown to its principal. */
  readonly onUnknownTool?: (principal: Principal, catalogId: string) => void
}

/** Records operations as spans and duration metrics if telemetry is exported (`server/telemetry/operations.ts`). */
export interface OperationLog {
  /** Runs one operation of a caller, and records it when its answer is known. */
  serve<Answer>(
    operation: ServedOperation,
    run: () => Promise<Answer>,
    endOf: (answer: Answer) => OperationEnd,
  ): Promise<Answer>
}

export type OperationAttributes = Readonly<Record<string, string | number>>

/** An operation with OpenTelemetry's attribute names. */
interface ServedOperation {
  /** Name of the span, without the target. */
  readonly name: string
  readonly trace: TraceContext
  readonly principal: Principal
  /** Attributes of the span and of the duration metric. They must have few different values. */
  readonly attributes: OperationAttributes
  /** Attributes only of the span. */
  readonly details: OperationAttributes
}

/** How an operation ended. */
export interface OperationEnd {
  /** `error.type`; absent if it succeeded. */
  readonly errorType?: string | undefined
  /** Name of the tool or prompt that was called, if the caller may see it. */
  readonly target?: string | undefined
  readonly attributes: OperationAttributes
  readonly details: OperationAttributes
}

/** Users' OAuth consents, which challenges request. */
export interface Consents {
  /** The reason why the challenge cannot be completed; `undefined` if the user can be sent to the provider. */
  obstacle(challenge: ChallengeRecord): ConsentObstacle | undefined
  /** Redirects the user who opens a pending challenge to the provider. */
  open(challenge: ChallengeRecord, request: HttpRequest): Promise<HttpReply>
}

/** A config section as the operator writes it. */
export type SectionConfig<Shape extends z.ZodRawShape> = {
  readonly [Name in keyof Shape]?: Exclude<z.input<Shape[Name]>, undefined>
}

/** A config section with its defaults filled in. */
export type SectionSettings<Shape extends z.ZodRawShape> = Readonly<z.output<z.ZodObject<Shape>>>
