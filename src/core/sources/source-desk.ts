import { hash } from 'node:crypto'
import type { Finding } from '#core/finding'
import type { LiveRegistry } from '#core/live-registry'
import { pinHash } from '#core/pins/pin-hash'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { OfferedTool, Source } from '#core/ports/source'
import type { SourceKind, Tool } from '#core/tool'
import type { DefinitionPins } from './definition-pins.ts'
import { FailedSource } from './failed-source.ts'
import { joinTools } from './join-tools.ts'
import type { PinnedTool } from './pinned-tool.ts'
import type { ProjectedTools } from './project-tools.ts'
import { SourceRunner, type SourceStatus } from './source-runner.ts'

/** A source as it was asked for, before it is opened. */
export interface WantedSource {
  readonly key: string
  readonly type: string
  readonly kind: SourceKind
  /** The toolkit's text. */
  readonly description?: string
  /** Changes when the options do: the source is then opened anew. */
  readonly revision: string
  open(): Source
}

export interface SourceDeskOptions {
  readonly registry: LiveRegistry
  /** Tools written as code, and their toolkits' texts. */
  readonly own: { readonly tools: readonly Tool[]; readonly toolkits: ReadonlyMap<string, string> }
  readonly pins: DefinitionPins
  /** Everything that should be open now: of the configuration and of the store. */
  wanted(): Promise<readonly WantedSource[]>
  /** Another number when sources or pins changed in the store, whoever changed them. */
  epoch(): Promise<number | string>
  project(source: Source, pinned: readonly PinnedTool[]): ProjectedTools
  readonly clock: Clock
  readonly log: Logger
}

/** How long a start waits for sources that were never read before; the others are served from their pins. */
const FIRST_READING_MS = 3_000
/** Replicas see a change of the store within a second. */
const EPOCH_POLL_MS = 500

interface OpenSource {
  readonly wanted: WantedSource
  readonly runner: SourceRunner
  tools: readonly Tool[]
  findings: readonly Finding[]
  oddities: readonly Finding[]
  /** What `tools` were made of. */
  pinned: string
  offered: readonly OfferedTool[]
}

export interface SourceView extends SourceStatus {
  /** Tools that agents can see. */
  readonly tools: number
  readonly findings: readonly Finding[]
  /** What is odd about tools that are served all the same. */
  readonly oddities: readonly Finding[]
}

/** All sources of the server. Agents see projections of accepted pins, so no upstream can delay or empty the catalog. */
export class SourceDesk {
  readonly #options: SourceDeskOptions
  readonly #open = new Map<string, OpenSource>()
  #clashes: readonly Finding[] = []
  #timer: NodeJS.Timeout | undefined
  #epoch: number | string | undefined
  #syncing: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(options: SourceDeskOptions) {
    this.#options = options
  }

  /** Opens what is wanted and serves what is pinned; waits a moment for sources nothing is known of. */
  async start(): Promise<void> {
    await this.sync()
    const unknown = [...this.#open.values()].filter(({ tools }) => tools.length === 0)
    const readings = Promise.all(unknown.map(({ runner }) => runner.firstReading()))
    const { promise: patience, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, FIRST_READING_MS)
    await Promise.race([readings, patience])
    clearTimeout(timer)
    this.#poll()
  }

  status(): readonly SourceView[] {
    return [...this.#open.values()].map(({ runner, tools, findings, oddities, wanted }) => ({
      ...runner.status(),
      oddities,
      tools: tools.length,
      findings: [...findings, ...this.#clashes.filter(({ toolId }) => toolId.startsWith(`${wanted.key}.`))],
    }))
  }

  /** Reads the definitions of one source anew, now; `false` when there is no such source. */
  async refresh(key: string): Promise<boolean> {
    const open = this.#open.get(key)
    if (open === undefined) return false
    await open.runner.renew()
    return true
  }

  /** Waits until a source has been read once, or could not be. */
  async firstReading(key: string): Promise<void> {
    await this.#open.get(key)?.runner.firstReading()
  }

  /** Opens, reopens and closes sources so that what is wanted is open; then serves what is accepted. One at a time. */
  sync(): Promise<void> {
    this.#syncing = this.#syncing.catch(() => undefined).then(() => this.#sync())
    return this.#syncing
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#syncing.catch(() => undefined)
    await Promise.all([...this.#open.values()].map(({ runner }) => runner.close()))
    this.#open.clear()
  }

  async #sync(): Promise<void> {
    if (this.#isClosed) return
    this.#epoch = await this.#options.epoch()
    const wanted = new Map((await this.#options.wanted()).map((source) => [source.key, source]))
    for (const [key, open] of this.#open) {
      if (wanted.get(key)?.revision === open.wanted.revision) continue
      this.#open.delete(key)
      await open.runner.close()
    }
    for (const source of wanted.values()) {
      if (!this.#open.has(source.key)) this.#openOne(source)
    }
    await this.#serve()
    for (const { runner } of this.#open.values()) void runner.firstReading()
  }

  #openOne(wanted: WantedSource): void {
    const { clock, log, pins } = this.#options
    const source = openOrFail(wanted)
    const runner = new SourceRunner({
      ...{ source, clock, log },
      observe: async (discovery) => {
        const observed = await pins.observe(source, discovery)
        if (observed.changed || this.#servesUnwanted(wanted.key)) await this.#serve()
        return observed
      },
    })
    this.#open.set(wanted.key, {
      wanted,
      runner,
      tools: [],
      findings: [],
      oddities: [],
      pinned: '',
      offered: [],
    })
  }

  /** Some filters of operators look at what only a reading tells. */
  #servesUnwanted(key: string): boolean {
    const open = this.#open.get(key)
    return open?.offered.some((tool) => open.runner.source.wants?.(tool) === false) ?? false
  }

  /** Puts what is accepted now before agents. */
  async #serve(): Promise<void> {
    const { own, registry, pins, log } = this.#options
    for (const [key, open] of this.#open) {
      const { source } = open.runner
      const pinned = (await pins.accepted(key)).filter(({ offered }) => source.wants?.(offered) ?? true)
      const made = digestOf(pinned)
      if (made === open.pinned) continue
      const { tools, findings, warnings } = this.#options.project(source, pinned)
      const offered = pinned.map((pin) => pin.offered)
      Object.assign(open, { tools, findings, oddities: warnings, pinned: made, offered })
      for (const finding of findings) log.warn({ source: key, finding }, 'an imported tool cannot be served')
    }
    const { tools, findings } = joinTools(
      own.tools,
      [...this.#open.values()].map((open) => open.tools),
    )
    this.#clashes = findings
    registry.replace(tools, this.#toolkits())
  }

  #toolkits(): ReadonlyMap<string, string> {
    const described = [...this.#open.values()].flatMap(({ wanted: { key, description } }) =>
      description === undefined ? [] : [[key, description] as const],
    )
    return new Map([...described, ...this.#options.own.toolkits])
  }

  #poll(): void {
    this.#timer = setTimeout(async () => {
      try {
        if ((await this.#options.epoch()) !== this.#epoch) await this.sync()
      } catch (error) {
        this.#options.log.error({ err: error }, 'looking for changes of sources failed')
      }
      if (!this.#isClosed) this.#poll()
    }, EPOCH_POLL_MS).unref()
  }
}

/** Tells whether the same would be projected again. */
function digestOf(pinned: readonly PinnedTool[]): string {
  const facts = pinned.map(({ hash: known, identity, offered, version, local, suspended }) => [
    known ?? pinHash(identity, offered),
    offered.policy,
    version,
    local,
    suspended,
  ])
  return hash('sha256', JSON.stringify(facts))
}

/** What cannot be opened is one source down, not a server that does not start. */
function openOrFail(wanted: WantedSource): Source {
  try {
    return wanted.open()
  } catch (error) {
    return new FailedSource(wanted, error)
  }
}
