import type { JsonObject } from '#core/json'

export const IMPORT_TYPES = ['mcp', 'openapi', 'otc', 'opentool'] as const
export type ImportType = (typeof IMPORT_TYPES)[number]

/** What an address, a file or a command turned out to be. */
export interface FoundSource {
  readonly type: ImportType
  /** As the configuration would have them, `type` included. */
  readonly options: JsonObject
  /** In words: `an OTC server (oxp-1.0)`. */
  readonly what: string
  /** What it calls itself. */
  readonly name?: string
  /** What else there is to know. */
  readonly notes: readonly string[]
}

/** A look at one thing it could be. */
export type Look =
  | { readonly kind: 'found'; readonly source: FoundSource }
  /** It is something, but nothing that can be used as it is. */
  | { readonly kind: 'unusable'; readonly why: string }
  | { readonly kind: 'other' }

export const OTHER: Look = { kind: 'other' }
