import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { PinnedSource, PinWrite } from '#core/ports/pin-store'
import type { Discovery, Source } from '#core/ports/source'
import type { Store } from '#core/ports/store'
import type { PinnedTool } from '#core/sources/pinned-tool'
import { StoreError } from '#core/store-error'
import { judgeDiscovery } from './judge-discovery.ts'
import { sightTools } from './sight-tools.ts'
import { suspensionOf } from './suspension.ts'

export interface PinDeskOptions {
  readonly store: Pick<Store, 'pins'>
  readonly clock: Clock
  readonly log: Logger
}

/** Somebody else wrote at the same time; more often than this is a fault. */
const MOST_TRIES = 20

/** Holds what sources offer against what was let in. Only `accept` puts a new definition before an agent (rule 32). */
export class PinDesk {
  readonly #options: PinDeskOptions
  /** What was read last of each source: definitions are large, and change rarely. */
  readonly #known = new Map<string, PinnedSource>()

  constructor(options: PinDeskOptions) {
    this.#options = options
  }

  /** What of a source is before agents now; needs no upstream. */
  async accepted(sourceKey: string): Promise<readonly PinnedTool[]> {
    const { pins } = await this.#read(sourceKey)
    return pins.flatMap((pin) => {
      if (!pin.isServed || pin.accepted === undefined) return []
      const { offered, identity, version } = pin.accepted
      const suspended = suspensionOf(pin)
      return [
        { offered, identity, version, local: pin.local, ...(suspended === undefined ? {} : { suspended }) },
      ]
    })
  }

  /** Takes note of what a source offers; `changed` when other tools, or tools otherwise, are served from now on. */
  async observe(
    source: Source,
    discovery: Discovery,
  ): Promise<{ readonly changed: boolean; readonly waiting: number }> {
    const { clock, log } = this.#options
    const { identity } = discovery
    const { tools, left } = sightTools(discovery)
    for (const { nativeName, problem } of left) log.warn({ source: source.key, tool: nativeName }, problem)
    const sighting = { source, identity, tools, atMs: clock.nowMs() }
    const done = await this.#change(source.key, (known) => judgeDiscovery(known, sighting))
    const waiting = done.now.pins.filter(
      (pin) => pin.waiting !== undefined && pin.waiting.rejected === undefined,
    )
    return { changed: done.written?.changesServed ?? false, waiting: waiting.length }
  }

  /** Reads, decides and writes, again when somebody else was faster. */
  async #change(
    sourceKey: string,
    decide: (known: PinnedSource) => PinWrite | undefined,
  ): Promise<{ readonly now: PinnedSource; readonly written: PinWrite | undefined }> {
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const known = await this.#read(sourceKey)
      const change = decide(known)
      if (change === undefined) return { now: known, written: undefined }
      if ((await this.#options.store.pins.write(change)) === 'stale') continue
      return { now: await this.#read(sourceKey), written: change }
    }
    throw new StoreError('not_written', `others kept changing the pins of ${sourceKey}`)
  }

  async #read(sourceKey: string): Promise<PinnedSource> {
    const { pins } = this.#options.store
    const known = this.#known.get(sourceKey)
    if (known !== undefined && (await pins.revision(sourceKey)) === known.revision) return known
    const read = await pins.read(sourceKey)
    this.#known.set(sourceKey, read)
    return read
  }
}
