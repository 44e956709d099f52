import { withDeadline } from '#kernel/base/waiting'
import type { Tool } from '#kernel/tool/tool'
import { firstSentence } from './tool-document.ts'

/**
 * The operator's embedding model (`search.embed`), which supplements the index. `tool-search.ts` uses it. Vectors of tools are
 * computed once per version, in the background; until all tools of a caller have one, and whenever the model fails or is slow,
 * a search uses the index alone.
 */

/** Returns one vector for each text. */
export type Embed = (texts: readonly string[]) => Promise<readonly (readonly number[])[]>

const BATCH = 64
/** How long a search waits for the vector of its text. */
const QUERY_DEADLINE_MS = 500
const BATCH_DEADLINE_MS = 60_000
/** After a failure no vectors of tools are requested for this long. */
const PAUSE_MS = 60_000
/** Maximum number of similar tools that the model adds to the candidates. */
const MAX_SIMILAR = 50

export class ToolVectors {
  readonly #embed: Embed
  readonly #onFailure: (error: unknown) => void
  readonly #vectors = new WeakMap<Tool, Float32Array>()
  #working = false
  #pausedUntilMs = 0

  constructor(embed: Embed, onFailure: (error: unknown) => void) {
    this.#embed = embed
    this.#onFailure = onFailure
  }

  /** Positions of the most similar tools, best first; `undefined` if the search has to use the index alone. */
  async similar(tools: readonly Tool[], text: string): Promise<readonly number[] | undefined> {
    const vectors = tools.map((tool) => this.#vectors.get(tool))
    if (vectors.includes(undefined)) {
      void this.#prepare(tools.filter((tool) => !this.#vectors.has(tool)))
      return undefined
    }
    const [query] = (await this.#embedTexts([text], QUERY_DEADLINE_MS)) ?? []
    if (query === undefined) return undefined
    return vectors
      .map((vector, at) => ({ at, score: vector === undefined ? 0 : product(vector, query) }))
      .sort((left, right) => right.score - left.score || left.at - right.at)
      .slice(0, MAX_SIMILAR)
      .map(({ at }) => at)
  }

  async #prepare(tools: readonly Tool[]): Promise<void> {
    if (this.#working || performance.now() < this.#pausedUntilMs) return
    this.#working = true
    try {
      for (let from = 0; from < tools.length; from += BATCH) {
        const batch = tools.slice(from, from + BATCH)
        const vectors = await this.#embedTexts(batch.map(textOf), BATCH_DEADLINE_MS)
        if (vectors === undefined) return
        for (const [at, tool] of batch.entries()) this.#vectors.set(tool, vectors[at] ?? new Float32Array(0))
      }
    } finally {
      this.#working = false
    }
  }

  /** Vectors of length 1; `undefined` if the model failed, was too slow or returned something else. */
  async #embedTexts(texts: readonly string[], maxMs: number): Promise<readonly Float32Array[] | undefined> {
    try {
      const vectors = await withDeadline(maxMs, () => this.#embed(texts))
      if (vectors.length !== texts.length)
        throw new Error(`${vectors.length} vectors for ${texts.length} texts`)
      return vectors.map(normalized)
    } catch (error) {
      this.#pausedUntilMs = performance.now() + PAUSE_MS
      this.#onFailure(error)
      return undefined
    }
  }
}

function textOf({ name, title = '', description }: Tool): string {
  return `${name.replaceAll('_', ' ')}. ${title} ${firstSentence(description)}`
}

function normalized(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector) || 1
  return Float32Array.from(vector, (value) => value / length)
}

function product(left: Float32Array, right: Float32Array): number {
  let sum = 0
  for (let at = 0; at < Math.min(left.length, right.length); at += 1)
    sum += (left[at] ?? 0) * (right[at] ?? 0)
  return sum
}
