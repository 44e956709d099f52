import type { MaybePromise } from '#core/ports/store'
import type { Catalog } from '#core/tools/catalog'

/** What an operator may choose about this protocol. */
export interface OpenToolOptions {
  /** What `/version` answers: the server's own version, not the protocol's (OTS-32). */
  readonly version: string
  /** The document that `/load` serves, without `$ref` (OTS-45); nothing = `{}` (OTS-44). Asked once per catalog. */
  readonly document?: ((catalog: Catalog) => MaybePromise<string | undefined>) | undefined
  /** Takes a string `id` as the idempotency key of a request that has no `Idempotency-Key` header (rule 4). */
  readonly stringIdsAreKeys?: boolean | undefined
  /** Serves `/streamCall`, an extension of one SDK (OTS-50). */
  readonly streaming?: boolean | undefined
  /** Serves `/stop`, and is told when somebody asks for it (OTS-53). */
  readonly stop?: (() => void) | undefined
}
