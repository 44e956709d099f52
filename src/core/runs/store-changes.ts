import type { MaybePromise } from '#core/ports/maybe-promise'

/** How soon what another process wrote is seen. */
const LOOK_MS = 500
/** After so many looks without a change it counts as one all the same: some things end by the time alone. */
const MOST_IDLE_LOOKS = 10

/** Told of every look; `isChanged` when what was read may be old. */
export type OnLook = (isChanged: boolean) => void

/** One look at the store's mark for everybody in this process who waits for what others write. */
export class StoreChanges {
  readonly #changeMark: () => MaybePromise<number>
  readonly #listeners = new Set<OnLook>()
  #timer: NodeJS.Timeout | undefined
  #mark: number | undefined
  #idleLooks = 0
  #isLooking = false

  constructor(changeMark: () => MaybePromise<number>) {
    this.#changeMark = changeMark
  }

  listen(onLook: OnLook): void {
    this.#listeners.add(onLook)
    this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref()
  }

  ignore(onLook: OnLook): void {
    this.#listeners.delete(onLook)
    if (this.#listeners.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#mark = undefined
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    const isMoved = await this.#hasMoved()
    this.#isLooking = false
    this.#idleLooks = isMoved ? 0 : this.#idleLooks + 1
    const isChanged = isMoved || this.#idleLooks >= MOST_IDLE_LOOKS
    if (isChanged) this.#idleLooks = 0
    for (const tell of [...this.#listeners]) tell(isChanged)
  }

  /** A store that cannot say is asked for the things themselves: whoever waits for them learns what is wrong. */
  async #hasMoved(): Promise<boolean> {
    try {
      const mark = await this.#changeMark()
      const isSame = mark === this.#mark
      this.#mark = mark
      return !isSame
    } catch {
      return true
    }
  }
}
