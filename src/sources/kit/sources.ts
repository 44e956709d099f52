import { createHash } from 'node:crypto'
import { namesFor } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { type Finding, fault } from '#kernel/base/errors'
import { operatorNames } from '#kernel/base/ids'
import type { Logger } from '#kernel/base/logger'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { LiveRegistry } from '#kernel/tool/catalog'
import type { SourceKind, Tool } from '#kernel/tool/tool'
import { pinHash } from './definition-diff.ts'
import { type IdleOverride, idleOverrides, type SourceOverride } from './overrides.ts'
import { joinTools, type ProjectedTools } from './project.ts'
import type { Discovery, OfferedTool, Source, SourceHealth } from './source.ts'
import { type DefinitionPins, type PinnedTool, SourceRunner, type SourceStatus } from './source-runner.ts'

/** A source as it was asked for, before it is opened. */
export interface WantedSource {
  readonly key: string
  readonly type: string
  readonly kind: SourceKind
  /** The toolkit's text. */
  readonly description?: string
  /** Changes when the options do: the source is then opened anew. */
  readonly revision: string
  /** What the operator wrote about single tools of it. */
  readonly overrides?: readonly SourceOverride[]
  open(): Source | Promise<Source>
}

interface SourcesOptions {
  readonly registry: LiveRegistry
  /** Tools written as code, and their toolkits' texts. */
  readonly own: { readonly tools: readonly Tool[]; readonly toolkits: ReadonlyMap<string, string> }
  readonly pins: DefinitionPins
  /** Everything that should be open now: of the configuration and of the store. */
  wanted(): Promise<readonly WantedSource[]>
  /** Another number when sources or pins changed in the store, no matter which process changed them. */
  epoch(): Promise<number | string>
  project(source: Source, pinned: readonly PinnedTool[]): Promise<ProjectedTools>
  readonly clock: Clock
  readonly log: Logger
}

/** How long a start waits for sources that were never read before; the others are served from their pins. */
const FIRST_READING_MS = 3_000
/** Replicas see a change of the store within a second. */
const EPOCH_POLL_MS = 500
/** How long calls may go on in a source that was replaced or taken away. */
const MAX_FINISH_MS = 120_000

interface OpenSource {
  wanted: WantedSource
  readonly runner: SourceRunner
  readonly calls: RunningInvocations
  tools: readonly Tool[]
  findings: readonly Finding[]
  oddities: readonly Finding[]
  /** What `tools` were made of. */
  pinned: string
  offered: readonly OfferedTool[]
  /** Native names as of the last reading; `undefined` before it. */
  read: readonly string[] | undefined
  /** What the operator wrote that does nothing. */
  idle: readonly IdleOverride[]
}

export interface SourceView extends SourceStatus {
  /** Tools that agents can see. */
  readonly tools: number
  readonly findings: readonly Finding[]
  /** What is odd about tools that are served all the same. */
  readonly oddities: readonly Finding[]
  /** What the operator wrote about tools of it that does nothing; also among the warnings. */
  readonly idle: readonly IdleOverride[]
}

/** All sources of the server. Agents see projections of accepted pins, so no upstream can delay or empty the catalog. */
export class Sources {
  readonly #options: SourcesOptions
  readonly #open = new Map<string, OpenSource>()
  #clashes: ReadonlyMap<string, readonly Finding[]> = new Map()
  #timer: NodeJS.Timeout | undefined
  #epoch: number | string | undefined
  #syncing: Promise<void> = Promise.resolve()
  #serving: Promise<void> = Promise.resolve()
  readonly #retired = new Set<SourceRunner>()
  #isClosed = false
  #onAdded: ((source: SourceView) => void) | undefined

  constructor(options: SourcesOptions) {
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
    return [...this.#open.values()].map(({ runner, tools, findings, oddities, wanted, idle }) => ({
      ...withIdle(runner.status(), idle),
      idle,
      oddities,
      tools: isWithheld({ idle }) ? 0 : tools.length,
      findings: [...findings, ...(this.#clashes.get(wanted.key) ?? [])],
    }))
  }

  /** Reads the definitions of one source anew, now; `false` when there is no such source. */
  async refresh(key: string): Promise<boolean> {
    const open = this.#open.get(key)
    if (open === undefined) return false
    await open.runner.renew()
    return true
  }

  /** Native names of its tools as of the last reading, also of those that are left out; `undefined` before it. */
  namesRead(key: string): readonly string[] | undefined {
    return this.#open.get(key)?.read
  }

  /** Waits until a source has been read once, or could not be; gives how it is then, if it is still there. */
  async firstReading(key: string): Promise<SourceView | undefined> {
    await this.#open.get(key)?.runner.firstReading()
    return this.status().find((source) => source.key === key)
  }

  /** Calls the listener when a source that is added from now on has been read once, or could not be. */
  onAdded(listener: (source: SourceView) => void): void {
    this.#onAdded = listener
  }

  /** Opens, reopens and closes sources so that what is wanted is open; then serves what is accepted. One at a time. */
  sync(): Promise<void> {
    this.#syncing = this.#syncing
      .catch(() => undefined)
      .then(() => this.#sync())
      .catch((error: unknown) => {
        // The next look tries again.
        this.#epoch = undefined
        throw error
      })
    return this.#syncing
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#syncing.catch(() => undefined)
    const runners = [...[...this.#open.values()].map(({ runner }) => runner), ...this.#retired]
    await Promise.all(runners.map((runner) => runner.close()))
    this.#open.clear()
  }

  async #sync(): Promise<void> {
    if (this.#isClosed) return
    this.#epoch = await this.#options.epoch()
    const wanted = new Map((await this.#options.wanted()).map((source) => [source.key, source]))
    const replaced: OpenSource[] = []
    for (const [key, open] of this.#open) {
      const same = wanted.get(key)
      if (same?.revision === open.wanted.revision) {
        // What is said of single tools may have changed elsewhere in the configuration.
        open.wanted = same
        continue
      }
      this.#open.delete(key)
      open.runner.rest()
      replaced.push(open)
    }
    const closed = new Set(replaced.map((open) => open.wanted.key))
    const missing = [...wanted.values()].filter(({ key }) => !this.#open.has(key))
    try {
      for (const source of missing) await this.#openOne(source)
      await this.#serve()
    } finally {
      // Not before: until its successor is served, calls go on coming to it.
      for (const open of replaced) this.#retire(open)
    }
    for (const { runner } of this.#open.values()) void runner.firstReading()
    for (const { key } of missing) if (!closed.has(key)) void this.#reportAdded(key)
  }

  async #reportAdded(key: string): Promise<void> {
    const listener = this.#onAdded
    const source = await this.firstReading(key)
    if (source !== undefined) listener?.(source)
  }

  /** Its calls end on their own; new ones go to whatever takes its place. */
  #retire({ runner, calls }: OpenSource): void {
    this.#retired.add(runner)
    void calls
      .idle(MAX_FINISH_MS)
      .then(() => runner.close())
      .catch((err: unknown) => this.#options.log.warn({ err }, 'a source that was replaced did not close'))
      .finally(() => this.#retired.delete(runner))
  }

  async #openOne(wanted: WantedSource): Promise<void> {
    const { clock, log, pins } = this.#options
    const source = await openOrFail(wanted)
    const calls = new RunningInvocations(source)
    const runner = new SourceRunner({
      ...{ source, clock, log },
      observe: async (discovery) => {
        const observed = await pins.observe(source, discovery)
        const isNews = this.#noteRead(wanted.key, discovery)
        if (observed.changed || isNews || this.#servesUnwanted(wanted.key)) await this.#serve()
        return observed
      },
    })
    this.#open.set(wanted.key, {
      wanted,
      runner,
      calls,
      tools: [],
      findings: [],
      oddities: [],
      pinned: '',
      offered: [],
      read: undefined,
      idle: [],
    })
  }

  /** Keeps the names of a reading; whether they may change what the operator's overrides are for. */
  #noteRead(key: string, { tools, leftOut = [] }: Discovery): boolean {
    const open = this.#open.get(key)
    if (open?.wanted.overrides === undefined) return false
    const names = [...tools.map(({ nativeName }) => nativeName), ...leftOut]
    const isNews = open.read?.length !== names.length || names.some((name, at) => name !== open.read?.[at])
    open.read = names
    return isNews
  }

  /** Some filters of operators look at what only a reading tells. */
  #servesUnwanted(key: string): boolean {
    const open = this.#open.get(key)
    return open?.offered.some((tool) => open.runner.source.wants?.(tool) === false) ?? false
  }

  /** Puts what is accepted now before agents. One at a time, so that the last to begin is the last to end. */
  #serve(): Promise<void> {
    this.#serving = this.#serving.catch(() => undefined).then(() => this.#serveAccepted())
    return this.#serving
  }

  async #serveAccepted(): Promise<void> {
    const { own, registry, pins, log } = this.#options
    for (const [key, open] of this.#open) {
      const { source } = open.runner
      const pinned = (await pins.accepted(key)).filter(({ offered }) => source.wants?.(offered) ?? true)
      const made = await digestOf(pinned)
      if (made !== open.pinned) {
        const { tools, findings, warnings } = await this.#options.project(source, pinned)
        const offered = pinned.map((pin) => pin.offered)
        Object.assign(open, { tools, findings, oddities: warnings, pinned: made, offered })
        for (const finding of findings)
          log.warn({ source: key, finding }, 'an imported tool cannot be served')
      }
    }
    // A rule may be about a tool of any of several sources, so the tools of all of them are there first.
    for (const [key, open] of this.#open) await this.#judgeOverrides(key, open)
    const { tools, findings } = await joinTools(
      own.tools,
      [...this.#open].map(([key, open]) => ({ key, tools: isWithheld(open) ? [] : open.tools })),
    )
    this.#clashes = findings
    await registry.replace(tools, this.#toolkits())
  }

  /** A guard that is for no tool is for the wrong one: until it is put right nothing of the source is served. */
  async #judgeOverrides(key: string, open: OpenSource): Promise<void> {
    const { overrides = [] } = open.wanted
    if (overrides.length === 0) return
    const { pins, log } = this.#options
    const before = open.idle.map(({ text }) => text).join('\n')
    open.idle = idleOverrides(overrides, {
      native: new Set([...(open.read ?? []), ...(await pins.names(key))].flatMap(operatorNames)),
      tools: open.tools.map((tool) => ({
        id: tool.id,
        names: namesFor(tool),
        approval: tool.policy.approval,
      })),
      isRead: open.read !== undefined,
      namesOf: (other) => this.#namesOf(other),
    })
    if (open.idle.map(({ text }) => text).join('\n') === before) return
    for (const { text, guards, isUndecided } of open.idle) {
      if (isUndecided) continue
      if (guards)
        log.error(
          { source: key, problem: text },
          'the tools of a source are not served: a rule matches none of them',
        )
      else log.warn({ source: key, problem: text }, 'something said about a tool of a source does nothing')
    }
  }

  /** All names of the tools of a source; `undefined` while nothing is known of them. */
  #namesOf(key: string): ReadonlySet<string> | undefined {
    const open = this.#open.get(key)
    if (open === undefined || (open.tools.length === 0 && open.read === undefined)) return undefined
    return new Set(open.tools.flatMap(namesFor))
  }

  #toolkits(): ReadonlyMap<string, string> {
    const described = [...this.#open.values()].flatMap(({ wanted: { key, description } }) =>
      description === undefined ? [] : [[key, description] as const],
    )
    return new Map([...described, ...this.#options.own.toolkits])
  }

  #poll(): void {
    this.#timer = setTimeout(async () => {
      for (const { runner } of this.#open.values()) runner.notice()
      try {
        if ((await this.#options.epoch()) !== this.#epoch) await this.sync()
      } catch (error) {
        this.#options.log.error({ err: error }, 'looking for changes of sources failed')
      }
      if (!this.#isClosed) this.#poll()
    }, EPOCH_POLL_MS).unref()
  }
}

/** Counts the calls that run on a source, from now on. */
class RunningInvocations {
  #count = 0
  readonly #waiting = new Set<() => void>()

  constructor(source: Source) {
    const invoke = source.invoke.bind(source)
    source.invoke = async (invocation) => {
      this.#count += 1
      try {
        return await invoke(invocation)
      } finally {
        this.#count -= 1
        if (this.#count === 0) for (const tell of this.#waiting) tell()
      }
    }
  }

  /** Waits until none runs, and no longer than so. */
  async idle(limitMs: number): Promise<void> {
    if (this.#count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    const timer = setTimeout(resolve, limitMs).unref()
    await promise
    clearTimeout(timer)
    this.#waiting.delete(resolve)
  }
}

function isWithheld({ idle }: Pick<OpenSource, 'idle'>): boolean {
  return idle.some(({ guards }) => guards)
}

/** What does nothing makes a source that answers `degraded`: its operator believes something that is not so. */
function withIdle(status: SourceStatus, idle: readonly IdleOverride[]): SourceStatus {
  const [first] = idle
  if (first === undefined) return status
  const said = idle.map(({ text }) => text)
  const guards = idle.flatMap(({ guards, text }) => (guards ? [text.replace(/^The /, 'the ')] : []))
  const reason = guards.length > 0 ? `Not served: ${guards.join(' Also, ')}` : first.text
  const isWell = status.state === 'ready' || status.state === 'starting'
  return {
    ...status,
    ...(isWell ? { state: 'degraded' as const, reason } : {}),
    warnings: [...said, ...status.warnings],
  }
}

/** Tells whether the same would be projected again. */
async function digestOf(pinned: readonly PinnedTool[]): Promise<string> {
  const digest = createHash('sha256')
  const yielder = new EventLoopYielder()
  for (const { hash: known, identity, offered, version, local, suspended } of pinned) {
    const facts = [known ?? pinHash(identity, offered), offered.policy, version, local, suspended]
    digest.update(`${JSON.stringify(facts)}\n`)
    if (yielder.isDue) await yielder.yieldNow()
  }
  return digest.digest('base64url')
}

/** What cannot be opened is one source down, not a server that does not start. */
async function openOrFail(wanted: WantedSource): Promise<Source> {
  try {
    return await wanted.open()
  } catch (error) {
    return new FailedSource(wanted, error)
  }
}

/** In the place of a source that could not be opened; its pinned tools stay listed and say why they do not run. */
export class FailedSource implements Source {
  readonly key: string
  readonly type: string
  readonly kind: SourceKind
  readonly #reason: string

  constructor({ key, type, kind }: Pick<Source, 'key' | 'type' | 'kind'>, error: unknown) {
    this.key = key
    this.type = type
    this.kind = kind
    this.#reason = error instanceof Error ? error.message : String(error)
  }

  discover(): Promise<never> {
    return Promise.reject(fault('upstream_failed', this.#reason))
  }

  invoke(): Promise<never> {
    return Promise.reject(
      fault('upstream_failed', 'The source of this tool cannot be opened.', {
        canRetry: true,
        developerMessage: this.#reason,
      }),
    )
  }

  health(): SourceHealth {
    return { state: 'down', reason: this.#reason }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
