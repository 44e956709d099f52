import type { Clock } from '#kernel/base/clock'
import { defined, type JsonObject } from '#kernel/base/json'
import { boundLogger, type Logger } from '#kernel/base/logger'
import { untilAborted } from '#kernel/base/waiting'
import { countOffered } from './offer-counts.ts'
import type { Discovery, OfferedTool, Source, SourceHealth, UpstreamList } from './source.ts'

/**
 * Reads the definitions of one source: at start, when the source reports a change, periodically, and with a growing
 * pause after failures. `Sources` has a runner for each open source. Invariant: only one reading runs at a time.
 */

const DISCOVERY_DEADLINE_MS = 30_000
const REFRESH_MS = 5 * 60_000
const FIRST_BACKOFF_MS = 1_000
const MAX_BACKOFF_MS = 5 * 60_000
/** A burst of change notifications causes one discovery. */
const SETTLE_MS = 100

interface SourceRunnerOptions {
  readonly source: Source
  readonly clock: Clock
  readonly log: Logger
  /** Records a discovery in the pins. */
  observe(discovery: Discovery): Promise<Observed>
  /** Called when the upstream has reported changes of these lists and its definitions have been read since. */
  announce?(lists: readonly UpstreamList[]): void
}

export interface SourceStatus extends SourceHealth {
  readonly key: string
  readonly type: string
  readonly kind: string
  /** When the source entered its state, as far as this process knows. */
  readonly sinceMs: number
  /** When its tools were last read in full by this process. */
  readonly readAtMs?: number
  /** When its tools will be read next; absent during a reading. */
  readonly nextReadAtMs?: number
  /** The number of tools that the last reading found. */
  readonly offered?: number
  /** The number of changes that wait for an operator's decision. */
  readonly waiting: number
  readonly warnings: readonly string[]
}

export class SourceRunner {
  readonly source: Source
  readonly #options: SourceRunnerOptions
  readonly #log: Logger
  readonly #closed = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #nextMs: number | undefined
  #reading: Promise<void> | undefined
  #isRequested = false
  #failures = 0
  #failure: string | undefined
  /** `offered` is the number of tools. */
  #last: (Pick<Discovery, 'warnings'> & { readonly atMs: number; readonly offered: number }) | undefined
  #waiting = 0
  /** Lists that the upstream has reported as changed since the last reading began. */
  #reported = new Set<UpstreamList>()
  #seen: { readonly state: SourceHealth['state']; readonly sinceMs: number }
  #closing: Promise<void> | undefined

  constructor(options: SourceRunnerOptions) {
    this.#options = options
    this.source = options.source
    this.#seen = { state: 'starting', sinceMs: options.clock.nowMs() }
    this.#log = boundLogger(options.log, { source: options.source.key })
    this.source.watch?.((lists = []) => {
      for (const list of lists) this.#reported.add(list)
      this.#schedule(SETTLE_MS)
    })
  }

  status(): SourceStatus {
    const { key, type, kind } = this.source
    const last = this.#last
    const health = this.readHealth()
    return defined({
      key,
      type,
      kind,
      ...health,
      sinceMs: this.#seen.sinceMs,
      readAtMs: last?.atMs,
      offered: last?.offered,
      nextReadAtMs: this.#reading === undefined ? this.#nextMs : undefined,
      waiting: this.#waiting,
      warnings: last?.warnings ?? [],
    })
  }

  /** Reads the source's health. Callers poll it, because sources do not report changes in their health. */
  readHealth(): SourceHealth {
    const health = this.#health()
    if (health.state !== this.#seen.state)
      this.#seen = { state: health.state, sinceMs: this.#options.clock.nowMs() }
    return health
  }

  /** True once this process has read the tools, or has tried to. */
  get isStarted(): boolean {
    return this.#reading !== undefined || this.#last !== undefined || this.#failures > 0
  }

  /** Waits for the first reading, or for the reading under way. Never throws. */
  firstReading(): Promise<void> {
    return this.#reading ?? (this.isStarted ? Promise.resolve() : this.refresh())
  }

  /** Reads the definitions now; if called during a reading, reads them again afterwards. Never throws. */
  refresh(): Promise<void> {
    if (this.#reading !== undefined) {
      this.#isRequested = true
      return this.#reading
    }
    clearTimeout(this.#timer)
    this.#reading = this.#readAll().finally(() => {
      this.#reading = undefined
      this.#schedule(this.#failures === 0 ? REFRESH_MS : this.#backoffMs())
    })
    return this.#reading
  }

  /** Drops the source's connections and cached state and reads the definitions, when an operator requests it. Never throws. */
  renew(): Promise<void> {
    this.source.renew?.()
    return this.refresh()
  }

  /** Starts no more readings. Calls to the source continue. */
  stopReading(): void {
    this.#closed.abort(new DOMException('The source is closed.', 'AbortError'))
    clearTimeout(this.#timer)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.stopReading()
    await this.#reading
    await this.source.close()
  }

  #health(): SourceHealth {
    const own = this.source.health()
    if (own.state === 'down') return own
    if (this.#failure !== undefined)
      return { state: this.#last === undefined ? 'down' : 'degraded', reason: this.#failure }
    return this.#last === undefined ? { state: 'starting' } : own
  }

  async #readAll(): Promise<void> {
    do {
      this.#isRequested = false
      await this.#readOnce()
    } while (this.#isRequested && !this.#closed.signal.aborted)
  }

  async #readOnce(): Promise<void> {
    const deadline = AbortSignal.timeout(DISCOVERY_DEADLINE_MS)
    const signal = AbortSignal.any([deadline, this.#closed.signal])
    const reported = [...this.#reported]
    this.#reported.clear()
    try {
      const discovery = await untilAborted(this.source.discover(signal), signal)
      const { changed, waiting } = await this.#options.observe(discovery)
      this.#noteRead(discovery, waiting)
      // A change of the catalog has already been announced, but the catalog does not contain single resources.
      const lists = reported.filter((list) => !changed || list === 'resources')
      if (lists.length > 0) this.#options.announce?.(lists)
    } catch (error) {
      if (!this.#closed.signal.aborted) this.#noteFailed(error, deadline.aborted)
    }
  }

  #noteRead({ tools, warnings }: Discovery, waiting: number): void {
    if (waiting > this.#waiting)
      this.#log.warn({ waiting }, 'definitions of the source wait for a decision: collet pins list')
    if (this.#failure !== undefined) this.#log.info({}, 'the source is reachable again')
    this.#waiting = waiting
    this.#last = { atMs: this.#options.clock.nowMs(), offered: countOffered(tools).tools, warnings }
    this.#failures = 0
    this.#failure = undefined
  }

  #noteFailed(error: unknown, isLate: boolean): void {
    const message = error instanceof Error ? error.message : String(error)
    const reason = isLate ? `It did not list its tools within ${DISCOVERY_DEADLINE_MS / 1_000} s.` : message
    if (reason !== this.#failure)
      this.#log.warn(
        { err: error },
        'the tools of the source could not be read; the accepted definitions stay in force',
      )
    this.#failures += 1
    this.#failure = reason
  }

  #backoffMs(): number {
    return Math.min(FIRST_BACKOFF_MS * 2 ** (this.#failures - 1), MAX_BACKOFF_MS)
  }

  #schedule(delayMs: number): void {
    if (this.#closed.signal.aborted) return
    clearTimeout(this.#timer)
    this.#nextMs = this.#options.clock.nowMs() + delayMs
    this.#timer = setTimeout(() => this.refresh(), delayMs).unref()
  }
}

/** The part of the pins that `Sources` uses. */
export interface DefinitionPins {
  accepted(sourceKey: string): Promise<readonly PinnedTool[]>
  /** Native names of everything that was ever pinned, served or not. */
  names(sourceKey: string): Promise<readonly string[]>
  /** Records the offered tools: pins them at the first discovery of a source, and holds every later change for a decision. */
  observe(source: Source, discovery: Discovery): Promise<Observed>
}

export interface Observed {
  /** True if the served tools or their definitions changed. */
  readonly changed: boolean
  /** The number of changes that wait for an operator's decision. */
  readonly waiting: number
}

/** A definition that was accepted by an operator or when its source was first seen: agents see it and calls use it (rule 32). */
export interface PinnedTool {
  readonly offered: OfferedTool
  /** The identity of the upstream when the definition was accepted. */
  readonly identity: JsonObject
  readonly version: string
  /** `pinHash` of the definition and the identity, if it is known. */
  readonly hash?: string
  /** The name in the tool's id, assigned when the tool is first seen and then kept; derived from the native name if absent. */
  readonly local?: string
  /** Why calls are refused until an operator decides. */
  readonly suspended?: string
}
