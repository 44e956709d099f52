/** What a document may cost to read; hostile ones fail before they cost more (OTS-26). */
export interface DocumentLimits {
  readonly characters: number
  /** JSON values as written. */
  readonly values: number
}

/** Room for 100 000 functions with some ten parameters each. */
export const DOCUMENT_LIMITS: DocumentLimits = {
  characters: 64 * 1024 * 1024,
  values: 10_000_000,
}

/** Levels of a schema with its references written out; a document with them is still one that loads. */
export const DEEPEST_SCHEMA = 240

/** What references may add when they are written out: so much, and a few times what is written. */
export const ADDED = { characters: 16 * 1024 * 1024, times: 4 }
