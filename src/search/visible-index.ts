import { hash } from 'node:crypto'
import { BoundedMap } from '#kernel/base/bounded-map'
import { inPieces } from '#kernel/base/long-work'
import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { type Intent, intentOf } from './intent.ts'
import { refine } from './ranking.ts'
import { Dictionary, TermIndex } from './term-index.ts'
import { plainNames, type ToolDocument, toolDocument } from './tool-document.ts'
import { plainName, type QueryWord, queryWords } from './words.ts'

/**
 * Search indexes over the tools that callers see. Each version of a tool is read once; each distinct set of visible tools has
 * one index, built at its first search. `tool-search.ts` gets the candidates of a query from it.
 * Invariant: tools outside the set do not affect any score, because rarities are counted in the set alone (rule 2).
 */

/** Maximum number of tools in all indexes together; the sets that were used least recently are dropped. */
const MAX_INDEXED = 100_000
/** Stems of removed tools stay in the dictionary; above this number it is replaced and tools are read again. */
const MAX_STEMS = 400_000

export class VisibleIndexes {
  readonly #byCatalog = new WeakMap<Catalog, Promise<VisibleIndex>>()
  readonly #bySet = new BoundedMap<string, Promise<VisibleIndex>>({ weight: MAX_INDEXED })
  #dictionary = new Dictionary()
  #documents = new WeakMap<Tool, ToolDocument>()

  /** The index of a catalog. Catalogs with the same tools share one. */
  of(catalog: Catalog): Promise<VisibleIndex> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const tools = catalog.latest()
    const set = hash('sha256', tools.map(({ id, definitionHash }) => `${id} ${definitionHash}`).join('\n'))
    const made = this.#bySet.get(set) ?? this.#make(tools)
    this.#bySet.set(set, made, Math.max(1, tools.length))
    this.#byCatalog.set(catalog, made)
    return made
  }

  #make(tools: readonly Tool[]): Promise<VisibleIndex> {
    if (this.#dictionary.size > MAX_STEMS) {
      this.#dictionary = new Dictionary()
      this.#documents = new WeakMap()
    }
    return inPieces(this.#build(tools, this.#dictionary, this.#documents))
  }

  *#build(
    tools: readonly Tool[],
    dictionary: Dictionary,
    known: WeakMap<Tool, ToolDocument>,
  ): Generator<undefined, VisibleIndex> {
    const documents: ToolDocument[] = []
    for (const tool of tools) {
      yield
      const document = known.get(tool) ?? toolDocument(dictionary, tool)
      known.set(tool, document)
      documents.push(document)
    }
    const terms = yield* TermIndex.make(
      dictionary,
      documents.map(({ words }) => words),
    )
    return new VisibleIndex(documents, terms)
  }
}

/** A tool with its score; higher is better. */
export interface ScoredTool {
  readonly at: number
  readonly score: number
}

/** Number of candidates that `refine` reorders. */
const MAX_CANDIDATES = 100

export class VisibleIndex {
  readonly tools: readonly Tool[]
  readonly #documents: readonly ToolDocument[]
  readonly #terms: TermIndex
  readonly #names = new Map<string, number[]>()
  readonly #positions = new Map<string, number>()

  constructor(documents: readonly ToolDocument[], terms: TermIndex) {
    this.#documents = documents
    this.#terms = terms
    this.tools = documents.map(({ tool }) => tool)
    for (const [at, tool] of this.tools.entries()) {
      this.#positions.set(tool.parts.base, at)
      for (const name of plainNames(tool)) {
        const positions = this.#names.get(name)
        if (positions === undefined) this.#names.set(name, [at])
        else positions.push(at)
      }
    }
  }

  words(text: string): readonly QueryWord[] {
    return queryWords(text, (stem) => this.#terms.has(stem))
  }

  /** How rare a word is among these tools, from 0 to 1. */
  readonly rarity = (stem: string): number => this.#terms.rarity(stem)

  positionOf(base: string): number | undefined {
    return this.#positions.get(base)
  }

  /** Tools with this name in any spelling; also tools whose name is one of the words of a longer text. */
  named(text: string): readonly number[] {
    const whole = this.#names.get(plainName(text))
    if (whole !== undefined) return whole
    const parts = text.split(/[\s,;:!?"'`()]+/).filter((part) => COMPOSED.test(part))
    return [...new Set(parts.flatMap((part) => this.#names.get(plainName(part)) ?? []))]
  }

  /** The best tools by their words, best first. The best has score 1. */
  candidates(text: string, words: readonly QueryWord[]): readonly ScoredTool[] {
    const intent = intentOf(text)
    const scores = this.#terms.score(words.map((word) => inContext(word, intent)))
    const best = highest(scores, MAX_CANDIDATES).flatMap((at) => {
      const document = this.#documents[at]
      return document === undefined ? [] : [{ at, score: scores[at] ?? 0, document }]
    })
    const refined = refine(this.#terms, { intent, words }, best).sort(byScore)
    const top = refined[0]?.score ?? 1
    return refined.map(({ at, score }) => ({ at, score: score / top }))
  }
}

/** Weight of words that say where or how, and not what the query is about. */
const CONTEXT_WEIGHT = 0.8

function inContext(word: QueryWord, { object }: Intent): QueryWord {
  const isContext = object.size > 0 && !object.has(word.stem) && word.weight === 1
  return isContext ? { ...word, weight: CONTEXT_WEIGHT } : word
}

/** Inside a longer text, only a word that looks like a composed name (`a.b`, `aB`) is treated as a name. */
const COMPOSED = /[\p{L}\p{N}][._/:-][\p{L}\p{N}]|\p{Ll}\p{Lu}/u

/** Best first; equal scores in the order of the catalog, so that results are repeatable. */
export function byScore(left: ScoredTool, right: ScoredTool): number {
  return right.score - left.score || left.at - right.at
}

const BINS = 256

/** Positions of the highest scores above 0: at least `count`, if there are as many. Sorting all scores would take longer. */
function highest(scores: Float32Array, count: number): readonly number[] {
  let top = 0
  for (const score of scores) if (score > top) top = score
  if (top === 0) return []
  const scale = (BINS - 1) / top
  const counts = new Uint32Array(BINS)
  for (const score of scores) {
    const bin = Math.floor(score * scale)
    counts[bin] = (counts[bin] ?? 0) + 1
  }
  let [lowestBin, included] = [BINS - 1, counts[BINS - 1] ?? 0]
  while (included < count && lowestBin > 0) {
    lowestBin -= 1
    included += counts[lowestBin] ?? 0
  }
  const found: number[] = []
  for (let at = 0; at < scores.length && found.length < MAX_COMPARED; at += 1) {
    const score = scores[at] ?? 0
    if (score > 0 && Math.floor(score * scale) >= lowestBin) found.push(at)
  }
  return found
}

/** Maximum number of positions that `highest` returns, because many tools may have equal scores. */
const MAX_COMPARED = 400
