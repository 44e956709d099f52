import type { JournalEvent } from '#kernel/journal/events'
import { type Ask, CommitGroup, type PendingChange, type Steps } from '#kernel/store/engine'
import type { Slice } from '#kernel/store/rows'

/** Sets the answer of every ask; together they cost one round trip. */
export type AnswerAll = (asks: readonly Ask[]) => Promise<void>

/** Steps one after another, each a round trip. */
export async function driveEach<Result>(steps: Steps<Result>, answerAll: AnswerAll): Promise<Result> {
  const iterator = steps[Symbol.iterator]()
  let step = iterator.next()
  while (step.done !== true) {
    await answerAll([step.value])
    step = iterator.next()
  }
  return step.value
}

/**
 * Applies changes of different lanes in lock-step: the next statement of each goes out together with those of the others,
 * so that a group costs as many round trips as its longest change has statements. Changes of one lane are about the same
 * run or call and go one after another.
 */
export async function driveLanes(
  group: CommitGroup,
  changes: readonly PendingChange[],
  answerAll: AnswerAll,
): Promise<void> {
  const parts = changes.map((change) => ({ change, part: new GroupPart(group) }))
  const lanes = Map.groupBy(parts, ({ change }) => change.lane)
  let waiting = [...lanes.values()].flatMap(startLane)
  while (waiting.length > 0) {
    await answerAll(waiting.map(({ ask }) => ask))
    waiting = waiting.flatMap((lane) => advance(lane))
  }
  // By change and not by step, as if each had been applied alone.
  for (const { part } of parts) part.join()
}

interface Begun {
  readonly change: PendingChange
  readonly part: GroupPart
}

interface Lane {
  readonly steps: Iterator<Ask, unknown, void>
  readonly current: Begun
  readonly later: readonly Begun[]
}

interface WaitingLane extends Lane {
  readonly ask: Ask
}

/** Begins with the first change of a lane; none waits when no change of the lane asks for anything. */
function startLane([current, ...later]: readonly Begun[]): readonly WaitingLane[] {
  if (current === undefined) return []
  const steps = current.change.begin(current.part)[Symbol.iterator]()
  return advance({ steps, current, later })
}

function advance(lane: Lane): readonly WaitingLane[] {
  const step = lane.steps.next()
  if (step.done !== true) return [{ ...lane, ask: step.value }]
  lane.current.change.keep(step.value)
  return startLane(lane.later)
}

/**
 * What one change adds to its group. Its texts go into the group as they come, because a row points to them by their
 * offset; its events stay together and in the order of the changes.
 */
class GroupPart extends CommitGroup {
  readonly #whole: CommitGroup
  readonly #own: JournalEvent[] = []

  constructor(whole: CommitGroup) {
    super(whole)
    this.#whole = whole
  }

  override append(event: JournalEvent): void {
    this.#own.push(event)
  }

  override addCaller(text: string): Slice {
    return this.#whole.addCaller(text)
  }

  override addPayload(text: string): Slice {
    return this.#whole.addPayload(text)
  }

  override addReference(): void {
    this.#whole.addReference()
  }

  join(): void {
    for (const event of this.#own) this.#whole.append(event)
  }
}
