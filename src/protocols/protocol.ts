import type { z } from 'zod'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { Gateway } from '#kernel/call/gateway'
import type { ChallengeRecord } from '#kernel/ports/store'
import type { OpenToolServing } from '#protocols/opentool/call-routes'
import type { ConsentObstacle } from '#stages/credentials/consent-obstacles'
import type { Store } from '#store/ports/store'
import type { HttpReply, HttpRequest, HttpRoute } from './http-exchange.ts'

/**
 * One protocol as the server sees it. A protocol is a folder that exports one of these and a line in `list.ts`: the
 * config takes its section from there, the server its routes, its root and its headers.
 */
export interface Protocol<Settings> {
  /** Its section of the config: the members with their defaults. */
  readonly settings: z.ZodRawShape
  /** The path that clients name as the resource they want a token for (RFC 9728). */
  readonly root: string
  /** Headers that pages of other origins may send and read, besides those of every protocol. */
  readonly headers: { readonly sent: readonly string[]; readonly read: readonly string[] }
  /** Loads and opens what serves it. `settings` are all of the server's: a protocol names the sections it reads. */
  serve(settings: Settings, services: ProtocolServices): Promise<ServedProtocol>
}

export interface ServedProtocol {
  readonly routes: readonly HttpRoute[]
  /** Ends what would keep connections open. */
  close?(): void
}

/** What a protocol may use of the server. */
export interface ProtocolServices {
  readonly gateway: Gateway
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  /** The version of this package. */
  readonly serverVersion: string
  /** Whether callers need a credential. */
  readonly isClosed: boolean
  /** Where callers reach this server. */
  publicUrl(): string
  /** Where the document is that says who gives tokens for a path; absent where nobody does. */
  readonly metadataUrl?: ((path: string) => string) | undefined
  readonly consents?: Consents
  /** What a server of OpenTool alone does otherwise. */
  readonly opentool?: OpenToolServing | undefined
  /** Hears of every tool that was looked up by its catalog id and is unknown to its principal. */
  readonly onUnknownTool?: (principal: Principal, catalogId: string) => void
}

/** The people whom challenges ask for access. */
export interface Consents {
  /** Why this one cannot be met here; `undefined` = a person can be sent to the provider. */
  obstacle(challenge: ChallengeRecord): ConsentObstacle | undefined
  /** Sends the person who opens a pending challenge to where it can be met. */
  open(challenge: ChallengeRecord, request: HttpRequest): Promise<HttpReply>
}

/** A section as the operator writes it. */
export type SectionConfig<Shape extends z.ZodRawShape> = {
  readonly [Name in keyof Shape]?: Exclude<z.input<Shape[Name]>, undefined>
}

/** A section with its defaults filled in. */
export type SectionSettings<Shape extends z.ZodRawShape> = Readonly<z.output<z.ZodObject<Shape>>>
