import type { QueryWord } from './words.ts'

/**
 * Ranks documents by words with BM25F: one weight for each word in each document, in which the fields count differently.
 * `visible-index.ts` makes one index for each set of tools that callers see, so that hidden tools do not affect any score. Terms
 * are numbers of a shared `Dictionary`, and documents are typed arrays: ten thousand tools take about ten megabytes.
 */

/** How much a word counts in each field, and how much longer fields are discounted. */
const FIELDS = {
  name: { weight: 3, discount: 0.6 },
  title: { weight: 3, discount: 0.6 },
  summary: { weight: 2, discount: 0.4 },
  description: { weight: 0.6, discount: 0.7 },
  parameters: { weight: 0.4, discount: 0.7 },
  source: { weight: 1, discount: 0 },
} as const

export type Field = keyof typeof FIELDS
const FIELD_NAMES: readonly Field[] = ['name', 'title', 'summary', 'description', 'parameters', 'source']

/** How soon repetitions of a word stop counting (`k1` of BM25). */
const SATURATION = 1.4
/** Weight of a word that is related to the word of the query. */
const RELATED_WEIGHT = 0.85
/** Weight of a word whose spelling is similar to an unknown word of the query. */
const SIMILAR_WEIGHT = 0.6

/** Numbers for stems, shared by all documents and indexes of a process. */
export class Dictionary {
  readonly #numbers = new Map<string, number>()
  readonly #stems: string[] = []

  get size(): number {
    return this.#stems.length
  }

  /** The number of a stem; assigns one if it has none. */
  add(stem: string): number {
    const known = this.#numbers.get(stem)
    if (known !== undefined) return known
    this.#numbers.set(stem, this.#stems.length)
    return this.#stems.push(stem) - 1
  }

  find(stem: string): number | undefined {
    return this.#numbers.get(stem)
  }

  stem(number: number): string {
    return this.#stems[number] ?? ''
  }
}

/** The words of one tool. */
export interface TermDocument {
  /** Distinct terms. */
  readonly terms: Uint32Array
  /** For each term, how often each field has it. */
  readonly counts: Uint8Array
  /** Number of words of each field. */
  readonly lengths: Uint16Array
}

export function makeDocument(
  dictionary: Dictionary,
  fields: Readonly<Record<Field, readonly string[]>>,
): TermDocument {
  const found = new Map<number, number[]>()
  for (const [at, field] of FIELD_NAMES.entries())
    for (const stem of fields[field]) {
      const term = dictionary.add(stem)
      const counts = found.get(term) ?? FIELD_NAMES.map(() => 0)
      counts[at] = Math.min(255, (counts[at] ?? 0) + 1)
      found.set(term, counts)
    }
  return {
    terms: Uint32Array.from(found.keys()),
    counts: Uint8Array.from([...found.values()].flat()),
    lengths: Uint16Array.from(FIELD_NAMES.map((field) => fields[field].length)),
  }
}

interface Postings {
  readonly documents: Uint32Array
  readonly weights: Float32Array
}

export class TermIndex {
  readonly size: number
  readonly #dictionary: Dictionary
  readonly #postings = new Map<number, Postings>()
  readonly #scores: Float32Array
  readonly #best: Float32Array

  private constructor(dictionary: Dictionary, size: number) {
    this.#dictionary = dictionary
    this.size = size
    this.#scores = new Float32Array(size)
    this.#best = new Float32Array(size)
  }

  /** Yields often, so that a large index can be made without blocking the serving thread. */
  static *make(dictionary: Dictionary, documents: readonly TermDocument[]): Generator<undefined, TermIndex> {
    const index = new TermIndex(dictionary, documents.length)
    yield* index.#fill(documents)
    return index
  }

  has(stem: string): boolean {
    const term = this.#dictionary.find(stem)
    return term !== undefined && this.#postings.has(term)
  }

  /** How rare a word is among these documents: 1 for one that no document has, near 0 for one that all have. */
  rarity(stem: string): number {
    const term = this.#dictionary.find(stem)
    const count = term === undefined ? 0 : (this.#postings.get(term)?.documents.length ?? 0)
    return idf(this.size, count) / idf(this.size, 0)
  }

  /** Scores of all documents; the array is used again by the next search. */
  score(words: readonly QueryWord[]): Float32Array {
    const scores = this.#scores.fill(0)
    for (const word of words) {
      const found = this.#alternatives(word)
      const [only] = found
      if (only === undefined) continue
      if (found.length === 1) add(scores, only.postings, only.weight * word.weight)
      else this.#addBest(scores, found, word.weight)
    }
    return scores
  }

  /** For a word and its related words, each document counts only the best one. */
  #addBest(scores: Float32Array, found: readonly Alternative[], scale: number): void {
    const best = this.#best.fill(0)
    for (const { postings, weight } of found) {
      const { documents, weights } = postings
      for (let at = 0; at < documents.length; at += 1) {
        const document = documents[at] ?? 0
        best[document] = Math.max(best[document] ?? 0, (weights[at] ?? 0) * weight)
      }
    }
    for (let document = 0; document < best.length; document += 1)
      scores[document] = (scores[document] ?? 0) + (best[document] ?? 0) * scale
  }

  #alternatives({ stem, related }: QueryWord): readonly Alternative[] {
    const exact = this.#alternative(stem, 1)
    const others = related.flatMap((other) => this.#alternative(other, RELATED_WEIGHT))
    return exact.length + others.length === 0 ? this.#similar(stem) : [...exact, ...others]
  }

  #alternative(stem: string, weight: number): readonly Alternative[] {
    const term = this.#dictionary.find(stem)
    const postings = term === undefined ? undefined : this.#postings.get(term)
    return postings === undefined ? [] : [{ postings, weight }]
  }

  /** Words in the documents that an unknown word may misspell or begin. */
  #similar(stem: string): readonly Alternative[] {
    if (stem.length < MIN_SIMILAR_LENGTH) return []
    const found: Alternative[] = []
    for (const [term, postings] of this.#postings) {
      if (!isSimilar(stem, this.#dictionary.stem(term))) continue
      found.push({ postings, weight: SIMILAR_WEIGHT })
      if (found.length >= MAX_SIMILAR) break
    }
    return found
  }

  *#fill(documents: readonly TermDocument[]): Generator<undefined, void> {
    const frequencies = new Map<number, number>()
    const totals = FIELD_NAMES.map(() => 0)
    for (const { terms, lengths } of documents) {
      yield
      for (const term of terms) frequencies.set(term, (frequencies.get(term) ?? 0) + 1)
      for (const [at, length] of lengths.entries()) totals[at] = (totals[at] ?? 0) + length
    }
    const averages = totals.map((total) => Math.max(1, total / Math.max(1, documents.length)))
    const ends = new Map<number, number>()
    for (const [term, count] of frequencies)
      this.#postings.set(term, { documents: new Uint32Array(count), weights: new Float32Array(count) })
    for (const [position, document] of documents.entries()) {
      yield
      const norms = FIELD_NAMES.map((field, at) =>
        normOf(field, document.lengths[at] ?? 0, averages[at] ?? 1),
      )
      for (const [at, term] of document.terms.entries()) {
        const postings = this.#postings.get(term)
        if (postings === undefined) continue
        const end = ends.get(term) ?? 0
        const frequency = weightedCount(document.counts, at, norms)
        postings.documents[end] = position
        postings.weights[end] =
          idf(documents.length, postings.documents.length) * (frequency / (frequency + SATURATION))
        ends.set(term, end + 1)
      }
    }
  }
}

interface Alternative {
  readonly postings: Postings
  readonly weight: number
}

const MIN_SIMILAR_LENGTH = 4
const MAX_SIMILAR = 8

/** One is the beginning of the other, or they differ by one letter. */
function isSimilar(left: string, right: string): boolean {
  const difference = left.length - right.length
  if (right.length < MIN_SIMILAR_LENGTH || left[0] !== right[0]) return false
  if (left.startsWith(right) || right.startsWith(left)) return Math.abs(difference) <= 3
  if (Math.abs(difference) > 1) return false
  let [at, end] = [0, 0]
  const shorter = Math.min(left.length, right.length)
  while (at < shorter && left[at] === right[at]) at += 1
  while (end < shorter - at && left.at(-1 - end) === right.at(-1 - end)) end += 1
  return Math.max(left.length, right.length) - at - end <= 1
}

function add(scores: Float32Array, { documents, weights }: Postings, weight: number): void {
  for (let at = 0; at < documents.length; at += 1) {
    const document = documents[at] ?? 0
    scores[document] = (scores[document] ?? 0) + (weights[at] ?? 0) * weight
  }
}

function idf(documents: number, matching: number): number {
  return Math.log(1 + (documents - matching + 0.5) / (matching + 0.5))
}

function normOf(field: Field, length: number, average: number): number {
  const { weight, discount } = FIELDS[field]
  return weight / (1 - discount + (discount * length) / average)
}

function weightedCount(counts: Uint8Array, at: number, norms: readonly number[]): number {
  let sum = 0
  for (const [field, norm] of norms.entries()) sum += norm * (counts[at * norms.length + field] ?? 0)
  return sum
}
