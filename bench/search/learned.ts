import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Tool } from '#kernel/tool/tool'
import { openLearning } from '#search/learning'
import type { PastSearches } from '#search/tool-search'
import { type Task, taskName } from './read-tools.ts'

/**
 * What searches of several callers would have left in the store, made from the wordings of the tasks. `run.ts` remembers two of the
 * three wordings and scores the third, so no remembered text is scored.
 * Invariant: the same tasks give the same texts in every run.
 */

const OPENINGS = [
  '',
  'please ',
  'can you ',
  'I want to ',
  'now ',
  'next: ',
  'for the report: ',
  'quickly ',
  'we need this: ',
  'help me: ',
]

/** Evidence of `count` texts for each tool. */
export function rememberedSearches(
  tasks: readonly Task[],
  tools: readonly Tool[],
  { without, count, bySame }: SearchChoice,
): PastSearches {
  const bases = new Map(tools.map((tool) => [taskName(tool), tool.parts.base]))
  const rows = tasks.flatMap(({ tools: wanted, wordings }) => {
    const tool = bases.get(wanted[0] ?? '') ?? ''
    const texts = wordings.filter((_, at) => at !== without)
    return Array.from({ length: count }, (_, at) => ({
      ...{ tenant: 'default', tool, principal: bySame ? 'bench' : `caller-${at}` },
      text: variant(texts[at % texts.length] ?? '', Math.floor(at / texts.length)),
    }))
  })
  return openLearning({
    store: { remember: () => undefined, list: () => rows },
    clock: SYSTEM_CLOCK,
    log: SILENT_LOGGER,
  })
}

interface SearchChoice {
  /** The wording that is scored. */
  readonly without: number
  readonly count: number
  /** Whether the scored caller made all searches; otherwise each is by a different caller. */
  readonly bySame: boolean
}

/** A request with another opening and, for later ones, without one of its words. */
function variant(text: string, number: number): string {
  const words = text.split(' ')
  const left = number < OPENINGS.length || words.length < 4 ? -1 : number % words.length
  return `${OPENINGS[number % OPENINGS.length]}${words.filter((_, at) => at !== left).join(' ')}`
}
