import type { Clock } from '#kernel/base/clock'
import { StoreError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { MaybePromise } from '#kernel/base/waiting'
import type { PinChanged } from '#kernel/journal/events'
import type { Store } from '#store/collet-store'
import type { AcceptedDefinition, PinnedSource, PinRecord, PinWrite } from '#store/imports'
import { classifyDiscovery, sanitizeDiscovered } from './classify.ts'
import {
  diffPin,
  FIRST_VERSION,
  hashOfWaiting,
  nextVersion,
  type PinDiff,
  type PinView,
  servedHash,
  suspensionOf,
  toolNameOf,
  viewPin,
} from './pin-view.ts'
import { toolkitOf } from './project.ts'
import type { Discovery, Source } from './source.ts'
import type { Observed, PinnedTool } from './source-runner.ts'

/**
 * The accepted definitions of imported tools, and the changes that wait for an operator. Sources read and write them, and the
 * admin API decides on changes. Invariant: after the first discovery, only `accept` serves a new definition to agents (rule 32).
 */

interface PinsOptions {
  readonly store: Pick<Store, 'pins'>
  readonly clock: Clock
  readonly log: Logger
}

interface Decision {
  readonly by: string
  /** Hash of the reviewed change, or the beginning of the hash, so that a later change is not decided on. */
  readonly hash?: string
}

interface BulkDecision extends Pick<Decision, 'by'> {
  /** True to accept suspicious changes too. */
  readonly suspicious?: boolean
  /**
   * Hashes of the reviewed changes, by tool. Only these tools are decided on, and none of them if one now
   * has a different waiting change.
   */
  readonly hashes?: ReadonlyMap<string, string>
}

export type PinResult = 'decided' | 'not_found' | 'not_waiting' | 'other_hash'

/** The number of attempts to write while other processes also write. */
const MAX_TRIES = 20

export class Pins {
  readonly #options: PinsOptions
  /** The last rows read for each source. They are kept because definitions are large and change rarely. */
  readonly #known = new Map<string, PinnedSource>()

  constructor(options: PinsOptions) {
    this.#options = options
  }

  /** The accepted definitions of a source, which are served even while its upstream is down. */
  async accepted(sourceKey: string): Promise<readonly PinnedTool[]> {
    const { pins } = await this.#read(sourceKey)
    return pins.flatMap((pin) => {
      if (!pin.isServed || pin.accepted === undefined) return []
      const { offered, identity, version, hash } = pin.accepted
      return [defined({ offered, identity, version, hash, local: pin.local, suspended: suspensionOf(pin) })]
    })
  }

  /** Native names of everything that was ever pinned, served or not. */
  async names(sourceKey: string): Promise<readonly string[]> {
    return (await this.#read(sourceKey)).pins.map(({ nativeName }) => nativeName)
  }

  /** Records the tools that a source offers. `changed` is true if the served tools or definitions change. */
  async observe(source: Source, discovery: Discovery): Promise<Observed> {
    const { clock, log } = this.#options
    const { identity } = discovery
    const { tools, leftOut } = await sanitizeDiscovered(discovery)
    for (const { nativeName, problem } of leftOut) log.warn({ source: source.key, tool: nativeName }, problem)
    const observation = { source, identity, tools, atMs: clock.nowMs() }
    const done = await this.#change(source.key, (known) => classifyDiscovery(known, observation))
    const waiting = done.now.pins.filter(isUndecided).length
    return { changed: done.written?.changesServed ?? false, waiting }
  }

  /** All pinned tools, or those of one source, in order. */
  async list(sourceKey?: string): Promise<readonly PinView[]> {
    const keys = sourceKey === undefined ? await this.#options.store.pins.sources() : [sourceKey]
    const all = await Promise.all(keys.map((key) => this.#read(key)))
    return all.flatMap(({ source, pins }) => pins.flatMap((pin) => viewPin(source, pin) ?? []))
  }

  /** Tools with a change that was not accepted, including rejected changes that are still offered. */
  async waiting(): Promise<readonly PinView[]> {
    return (await this.list()).filter(({ waiting }) => waiting !== undefined)
  }

  /** The changes that an approval would make; `undefined` for a tool that is not pinned. */
  async diff(tool: string): Promise<PinDiff | undefined> {
    const found = await this.#find(tool)
    const view = found && viewPin(found.source, found.pin)
    return view && diffPin(view, found.pin)
  }

  /** Accepts the waiting change of one tool. */
  accept(tool: string, decision: Decision): Promise<PinResult> {
    return this.#decide(tool, decision, 'pin.accepted')
  }

  /** Rejects the waiting change of one tool; the accepted definition stays. */
  reject(tool: string, decision: Decision): Promise<PinResult> {
    return this.#decide(tool, decision, 'pin.rejected')
  }

  /** Accepts the waiting changes of a source, except rejected changes and, by default, suspicious changes; returns the tools. */
  async acceptAll(sourceKey: string, { by, suspicious = false, hashes }: BulkDecision) {
    const decision = { by, atMs: this.#options.clock.nowMs() }
    let changed: readonly string[] = []
    const { written } = await this.#change(sourceKey, (known) => {
      const waiting = known.pins
        .filter(isUndecided)
        .filter((pin) => suspicious || pin.waiting?.class !== 'suspicious')
      const isReviewed = (pin: PinRecord): boolean =>
        hashes?.get(toolNameOf(sourceKey, pin)) === (pin.waiting && hashOfWaiting(pin.waiting))
      const decided = hashes === undefined ? waiting : waiting.filter(isReviewed)
      const found = new Set(decided.map((pin) => toolNameOf(sourceKey, pin)))
      changed = [...(hashes?.keys() ?? [])].filter((tool) => !found.has(tool))
      return changed.length > 0 ? undefined : decidePins(known, decided, 'pin.accepted', decision)
    })
    return { accepted: (written?.pins ?? []).map((pin) => toolNameOf(sourceKey, pin)), changed }
  }

  async #decide(tool: string, { by, hash }: Decision, type: keyof typeof DECISIONS): Promise<PinResult> {
    const found = await this.#find(tool)
    if (found === undefined) return 'not_found'
    const decision = { by, atMs: this.#options.clock.nowMs() }
    let refused: PinResult | undefined
    await this.#change(found.source, (known) => {
      const pin = known.pins.find(({ nativeName }) => nativeName === found.pin.nativeName)
      refused = undefined
      if (pin?.waiting === undefined) refused = 'not_waiting'
      else if (hash !== undefined && !hashOfWaiting(pin.waiting).startsWith(hash)) refused = 'other_hash'
      return refused !== undefined || pin === undefined ? undefined : decidePins(known, [pin], type, decision)
    })
    return refused ?? 'decided'
  }

  async #find(tool: string): Promise<{ readonly source: string; readonly pin: PinRecord } | undefined> {
    const [name = ''] = tool.split('@')
    for (const source of await this.#options.store.pins.sources()) {
      if (!name.startsWith(`${toolkitOf(source)}.`)) continue
      const { pins } = await this.#read(source)
      const pin = pins.find((candidate) => toolNameOf(source, candidate) === name)
      if (pin !== undefined) return { source, pin }
    }
    return undefined
  }

  /** Reads, decides and writes, and starts again if another process wrote in between. */
  async #change(
    sourceKey: string,
    decide: (known: PinnedSource) => MaybePromise<PinWrite | undefined>,
  ): Promise<{ readonly now: PinnedSource; readonly written: PinWrite | undefined }> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const known = await this.#read(sourceKey)
      const change = await decide(known)
      if (change === undefined) return { now: known, written: undefined }
      const seen = await this.#write(change)
      if (seen === undefined) continue
      const now = withWritten(known, { ...change, seen })
      this.#known.set(sourceKey, now)
      return { now, written: change }
    }
    throw new StoreError('not_written', `other processes kept changing the pins of ${sourceKey}`)
  }

  /** The revision before the last part was written; `undefined` if another process wrote in between. */
  async #write(change: PinWrite): Promise<number | undefined> {
    let { seen } = change
    let written: PinWrite | undefined
    for await (const part of partsOf(change)) {
      if (written !== undefined) seen = nextRevision(written)
      written = { ...part, seen }
      if ((await this.#options.store.pins.write(written)) === 'stale') return undefined
    }
    return seen
  }

  async #read(sourceKey: string): Promise<PinnedSource> {
    const { pins } = this.#options.store
    const known = this.#known.get(sourceKey)
    if (known !== undefined && (await pins.revision(sourceKey)) === known.revision) return known
    const read = keepKnown(await pins.read(sourceKey), known)
    this.#known.set(sourceKey, read)
    return read
  }
}

function isUndecided({ waiting }: PinRecord): boolean {
  return waiting !== undefined && waiting.rejected === undefined
}

/** A transaction of this size takes about 10 ms; a source may have thousands of tools. */
const MAX_CHARACTERS = 400_000
const MAX_PINS = 400

/**
 * A write in parts, each of which blocks the serving thread only briefly. A crash in between loses nothing: the rows are
 * independent of each other, and an interrupted first discovery continues, because it ends only with its last part.
 */
async function* partsOf(change: PinWrite): AsyncGenerator<PinWrite> {
  const yielder = new EventLoopYielder()
  const isFirst = change.seen <= 0
  let pins: PinRecord[] = []
  let characters = 0
  // Events that do not concern a single tool are under `undefined`.
  const eventsOf = Map.groupBy(change.events, (event) => ('tool' in event ? event.tool : undefined))
  const part = (isPartial: boolean): PinWrite => ({
    ...change,
    pins,
    ...(isPartial && isFirst ? { isPartial, changesServed: false } : {}),
    events: [
      ...pins.flatMap((pin) => eventsOf.get(toolNameOf(change.source, pin)) ?? []),
      ...(isPartial ? [] : (eventsOf.get(undefined) ?? [])),
    ],
  })
  for (const pin of change.pins) {
    if (characters > MAX_CHARACTERS || pins.length >= MAX_PINS) {
      yield part(true)
      // The next part is prepared in a later turn, after this part is committed.
      await yielder.yieldNow()
      pins = []
      characters = 0
    }
    pins.push(pin)
    characters += JSON.stringify(pin).length
    if (yielder.isDue) await yielder.yieldNow()
  }
  await yielder.yieldNow()
  yield part(false)
}

/** The cached rows after a write of this process. */
function withWritten(known: PinnedSource, change: PinWrite): PinnedSource {
  const rows = new Map([...known.pins, ...change.pins].map((pin) => [pin.nativeName, pin]))
  return { ...known, revision: nextRevision(change), pins: [...rows.values()].sort(byName) }
}

/**
 * Reuses the objects of unchanged definitions, because caches of derived values, which are costly to compute for thousands of
 * tools, are keyed by these objects.
 */
function keepKnown(read: PinnedSource, known: PinnedSource | undefined): PinnedSource {
  if (known === undefined) return read
  const before = new Map(known.pins.map((pin) => [pin.nativeName, pin]))
  return { ...read, pins: read.pins.map((pin) => keepDefinition(pin, before.get(pin.nativeName))) }
}

function keepDefinition(pin: PinRecord, known: PinRecord | undefined): PinRecord {
  if (pin.accepted === undefined || known?.accepted === undefined) return pin
  const isSame = acceptedHash(pin.accepted) === acceptedHash(known.accepted)
  return isSame ? { ...pin, accepted: known.accepted } : pin
}

function acceptedHash({ hash, version, offered, by, atMs }: AcceptedDefinition): string {
  return JSON.stringify([hash, version, offered.policy, by, atMs])
}

function byName(left: PinRecord, right: PinRecord): number {
  return left.nativeName < right.nativeName ? -1 : 1
}

type PinDecision = Pick<AcceptedDefinition, 'by' | 'atMs'>

/** How each decision changes a row. */
const DECISIONS = { 'pin.accepted': acceptWaiting, 'pin.rejected': rejectWaiting }

/** The store change for the decisions about some tools of a source; `undefined` if there is nothing to decide. */
function decidePins(
  known: PinnedSource,
  pins: readonly PinRecord[],
  type: keyof typeof DECISIONS,
  decision: PinDecision,
): PinWrite | undefined {
  const decided = pins
    .map((pin) => ({ pin, next: DECISIONS[type](pin, decision) }))
    .filter(({ pin, next }) => pin !== next)
  if (decided.length === 0) return undefined
  const { source, revision } = known
  const events = decided.map(
    ({ pin, next }): PinChanged =>
      defined({
        type,
        at: decision.atMs,
        source,
        tool: toolNameOf(source, pin),
        hash: pin.waiting && hashOfWaiting(pin.waiting),
        class: pin.waiting?.class,
        version: type === 'pin.accepted' && next.isServed ? next.accepted?.version : undefined,
        by: decision.by,
      }),
  )
  const changesServed = decided.some(({ pin, next }) => servedHash(pin) !== servedHash(next))
  return { source, seen: revision, pins: decided.map(({ next }) => next), changesServed, events }
}

/** The row after the waiting change is accepted: a new version, or a removed tool. */
function acceptWaiting(pin: PinRecord, { by, atMs }: PinDecision): PinRecord {
  const { waiting, accepted } = pin
  if (waiting === undefined) return pin
  const { definition } = waiting
  if (definition === undefined) return { ...pin, isServed: false, waiting: undefined }
  const version = accepted === undefined ? FIRST_VERSION : nextVersion(accepted, definition)
  return { ...pin, accepted: { ...definition, version, by, atMs }, isServed: true, waiting: undefined }
}

/** The accepted definition stays; the rejection applies as long as the upstream offers exactly this change. */
function rejectWaiting(pin: PinRecord, { by, atMs }: PinDecision): PinRecord {
  const { waiting } = pin
  return waiting === undefined ? pin : { ...pin, waiting: { ...waiting, rejected: { by, atMs } } }
}

export function nextRevision({ seen, isPartial = false }: Pick<PinWrite, 'seen' | 'isPartial'>): number {
  return isPartial ? Math.min(seen, 0) - 1 : Math.max(seen, 0) + 1
}
