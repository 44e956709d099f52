import type { JournalEvent } from '#kernel/journal/events'
import { CommitGroup, type PendingChange, type StatementRequest, type Steps } from '#kernel/store/engine'
import type { Slice } from '#kernel/store/rows'

/**
 * Drives steps on a remote database. Changes of different lanes take their steps together, so that a commit group costs as many
 * round trips as its longest change has statements. Changes of one lane concern the same run or call and are applied in order.
 */

/** Answers all requests in one round trip. */
export type AnswerAll = (requests: readonly StatementRequest[]) => Promise<void>

/** Runs steps with one round trip each. */
export async function driveEach<Result>(steps: Steps<Result>, answerAll: AnswerAll): Promise<Result> {
  const iterator = steps[Symbol.iterator]()
  let step = iterator.next()
  while (step.done !== true) {
    await answerAll([step.value])
    step = iterator.next()
  }
  return step.value
}

/** Applies changes of different lanes in lock-step: the next statements of all lanes are sent together. */
export async function driveLanes(
  group: CommitGroup,
  changes: readonly PendingChange[],
  answerAll: AnswerAll,
): Promise<void> {
  const parts = changes.map((change) => ({ change, part: new GroupPart(group) }))
  const lanes = Map.groupBy(parts, ({ change }) => change.lane)
  let waiting = [...lanes.values()].flatMap(startLane)
  while (waiting.length > 0) {
    await answerAll(waiting.map(({ request }) => request))
    waiting = waiting.flatMap((lane) => advance(lane))
  }
  // Events are added change by change, as if each change had been applied alone.
  for (const { part } of parts) part.join()
}

interface StartedChange {
  readonly change: PendingChange
  readonly part: GroupPart
}

interface Lane {
  readonly steps: Iterator<StatementRequest, unknown, void>
  readonly current: StartedChange
  readonly later: readonly StartedChange[]
}

interface WaitingLane extends Lane {
  readonly request: StatementRequest
}

/** Starts the first change of a lane; returns nothing if no change of the lane has a statement. */
function startLane([current, ...later]: readonly StartedChange[]): readonly WaitingLane[] {
  if (current === undefined) return []
  const steps = current.change.begin(current.part)[Symbol.iterator]()
  return advance({ steps, current, later })
}

function advance(lane: Lane): readonly WaitingLane[] {
  const step = lane.steps.next()
  if (step.done !== true) return [{ ...lane, request: step.value }]
  lane.current.change.keep(step.value)
  return startLane(lane.later)
}

/** The contribution of one change to its group. Texts are added at once, because rows refer to their offsets; events wait for `join`. */
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
