import { createHash } from 'node:crypto'
import { namesFor } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { type Finding, fault } from '#kernel/base/errors'
import { operatorNames } from '#kernel/base/ids'
import type { Logger } from '#kernel/base/logger'
import { EventLoopYielder } from '#kernel/base/long-work'
import { untilAborted, withDeadline } from '#kernel/base/waiting'
import type { LiveRegistry } from '#kernel/tool/catalog'
import type { SourceKind, Tool } from '#kernel/tool/tool'
import { pinHash } from './definition-diff.ts'
import { countOffered, type OfferCounts } from './offer-counts.ts'
import { type IneffectiveOverride, ineffectiveOverrides, type SourceOverride } from './overrides.ts'
import { joinTools, type ProjectedTools } from './project.ts'
import type { Discovery, OfferedTool, Source, UpstreamList } from './source.ts'
import { type DefinitionPins, type PinnedTool, SourceRunner, type SourceStatus } from './source-runner.ts'

/**
 * All sources of the server: opens and closes them as the configuration and the store require, and serves the accepted
 * definitions. Invariant: agents see projections of accepted pins, so no upstream can delay or empty the catalog.
 */

/** A configured source, before it is opened. */
export interface WantedSource {
  readonly key: string
  readonly type: string
  readonly kind: SourceKind
  readonly description?: string
  /** Changes when the options do; the source is then opened again. */
  readonly revision: string
  readonly overrides?: readonly SourceOverride[]
  open(): Source | Promise<Source>
}

interface SourcesOptions {
  readonly registry: LiveRegistry
  /** The tools written as code, and the descriptions of their toolkits. */
  readonly own: { readonly tools: readonly Tool[]; readonly toolkits: ReadonlyMap<string, string> }
  readonly pins: DefinitionPins
  /** The sources from the configuration and the store that should be open now. */
  wanted(): Promise<readonly WantedSource[]>
  /** Changes when any process changes sources or pins in the store. */
  epoch(): Promise<number | string>
  /** Makes tools from accepted definitions; calls of the tools run through `invoke`. */
  project(source: Source, pinned: readonly PinnedTool[], invoke: Source['invoke']): Promise<ProjectedTools>
  /** Called when the upstream of a source has reported changes of these lists that did not change the catalog. */
  announce?(key: string, lists: readonly UpstreamList[]): void
  readonly clock: Clock
  readonly log: Logger
}

/** How long a start waits for sources that have no pins yet. */
const FIRST_READING_MS = 3_000
/** The interval of checks of the store; with it, replicas see a change within a second. */
const EPOCH_POLL_MS = 500
/** How long calls to a source may continue after it was replaced or removed. */
const MAX_FINISH_MS = 120_000

interface OpenSource {
  wanted: WantedSource
  readonly runner: SourceRunner
  readonly calls: RunningCalls
  served: ServedTools
  /** Native names from the last reading; `undefined` before the first reading. */
  read: readonly string[] | undefined
  /** The operator's overrides that have no effect. */
  ineffective: readonly IneffectiveOverride[]
}

/** The projection of a source's accepted definitions. */
interface ServedTools extends ProjectedTools {
  /** Digest of the pins that were projected. */
  readonly pinned: string
  readonly offered: readonly OfferedTool[]
}

const NOTHING: ServedTools = { tools: [], findings: [], warnings: [], pinned: '', offered: [] }

export interface SourceView extends SourceStatus, OfferCounts {
  readonly findings: readonly Finding[]
  /** Problems of tools that are served anyway. */
  readonly toolWarnings: readonly Finding[]
  /** The operator's overrides that have no effect; they are also among the warnings. */
  readonly ineffective: readonly IneffectiveOverride[]
}

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

  /** Opens the sources and serves the pinned tools; waits up to `FIRST_READING_MS` for sources without pins. */
  async start(): Promise<void> {
    await this.sync()
    const unknown = [...this.#open.values()].filter(({ served }) => served.tools.length === 0)
    const readings = Promise.all(unknown.map(({ runner }) => runner.firstReading()))
    // The tools of a slower source are served once they have been read.
    await withDeadline(FIRST_READING_MS, () => readings).catch(() => undefined)
    this.#poll()
  }

  status(): readonly SourceView[] {
    return [...this.#open.values()].map(({ runner, served, wanted, ineffective }) => ({
      ...withIneffective(runner.status(), ineffective),
      ineffective,
      toolWarnings: served.warnings,
      ...countOffered(isWithheld({ ineffective }) ? [] : served.tools),
      findings: [...served.findings, ...(this.#clashes.get(wanted.key) ?? [])],
    }))
  }

  /** Reads the definitions of one source again now; `false` if the source does not exist. */
  async refresh(key: string): Promise<boolean> {
    const open = this.#open.get(key)
    if (open === undefined) return false
    await open.runner.renew()
    return true
  }

  /** Native names of a source's tools from the last reading, including tools that are left out; `undefined` before the first reading. */
  namesRead(key: string): readonly string[] | undefined {
    return this.#open.get(key)?.read
  }

  /** Waits until a source has been read once, or until that failed; returns its state if it is still open. */
  async firstReading(key: string): Promise<SourceView | undefined> {
    await this.#open.get(key)?.runner.firstReading()
    return this.status().find((source) => source.key === key)
  }

  /** Calls the listener for each source added from now on, once the source has been read or could not be read. */
  onAdded(listener: (source: SourceView) => void): void {
    this.#onAdded = listener
  }

  /** Opens, reopens and closes sources as wanted, then serves the accepted tools. Only one sync runs at a time. */
  sync(): Promise<void> {
    this.#syncing = this.#syncing
      .catch(() => undefined)
      .then(() => this.#sync())
      .catch((error: unknown) => {
        // The next poll tries again.
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
        // Overrides of single tools may have changed elsewhere in the configuration.
        open.wanted = same
        continue
      }
      this.#open.delete(key)
      open.runner.stopReading()
      replaced.push(open)
    }
    const closed = new Set(replaced.map((open) => open.wanted.key))
    const missing = [...wanted.values()].filter(({ key }) => !this.#open.has(key))
    try {
      for (const source of missing) await this.#openOne(source)
      await this.#serve()
    } finally {
      // A replaced source receives calls until its successor is served.
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

  /** Closes a source after its calls have ended; new calls go to its successor. */
  #retire({ runner, calls }: OpenSource): void {
    this.#retired.add(runner)
    void calls
      .idle()
      .then(() => runner.close())
      .catch((err: unknown) => this.#options.log.warn({ err }, 'a replaced source could not be closed'))
      .finally(() => this.#retired.delete(runner))
  }

  async #openOne(wanted: WantedSource): Promise<void> {
    const { clock, log, pins } = this.#options
    // A source that cannot be opened counts as down, and the server starts without it.
    const open = async (): Promise<Source> => wanted.open()
    const source = await open().catch((error: unknown) => failedSource(wanted, error))
    const runner = new SourceRunner({
      source,
      clock,
      log,
      observe: async (discovery) => {
        const observed = await pins.observe(source, discovery)
        const hasNewNames = this.#noteRead(wanted.key, discovery)
        if (observed.changed || hasNewNames || this.#servesUnwanted(wanted.key)) await this.#serve()
        return observed
      },
      announce: (lists) => this.#options.announce?.(wanted.key, lists),
    })
    const calls = new RunningCalls(source)
    this.#open.set(wanted.key, { wanted, runner, calls, served: NOTHING, read: undefined, ineffective: [] })
  }

  /** Keeps the names from a reading. Returns true if the operator's overrides may now match other tools. */
  #noteRead(key: string, { tools, leftOut = [] }: Discovery): boolean {
    const open = this.#open.get(key)
    if (open?.wanted.overrides === undefined) return false
    const names = [...tools.map(({ nativeName }) => nativeName), ...leftOut]
    const hasNewNames =
      open.read?.length !== names.length || names.some((name, at) => name !== open.read?.[at])
    open.read = names
    return hasNewNames
  }

  /** True if a served tool is now excluded, because some filters depend on facts that only a reading shows. */
  #servesUnwanted(key: string): boolean {
    const open = this.#open.get(key)
    return open?.served.offered.some((tool) => open.runner.source.wants?.(tool) === false) ?? false
  }

  /** Serves the accepted tools. Runs one at a time, so that an older result never replaces a newer one. */
  #serve(): Promise<void> {
    this.#serving = this.#serving.catch(() => undefined).then(() => this.#serveAccepted())
    return this.#serving
  }

  async #serveAccepted(): Promise<void> {
    const { own, registry, pins, log } = this.#options
    for (const [key, open] of this.#open) {
      const { source } = open.runner
      const pinned = (await pins.accepted(key)).filter(({ offered }) => source.wants?.(offered) ?? true)
      const digest = await digestOf(pinned)
      if (digest === open.served.pinned) continue
      const projected = await this.#options.project(source, pinned, open.calls.invoke)
      open.served = { ...projected, pinned: digest, offered: pinned.map(({ offered }) => offered) }
      for (const finding of projected.findings)
        log.warn({ source: key, finding }, 'an imported tool cannot be served')
    }
    // An override may apply to tools of several sources, so all sources are projected first.
    for (const [key, open] of this.#open) await this.#checkOverrides(key, open)
    const { tools, findings } = await joinTools(
      own.tools,
      [...this.#open].map(([key, open]) => ({ key, tools: isWithheld(open) ? [] : open.served.tools })),
    )
    this.#clashes = findings
    await registry.replace(tools, this.#toolkits())
  }

  /** An approval override that matches no tool is probably misspelled, so its source is not served until it is fixed. */
  async #checkOverrides(key: string, open: OpenSource): Promise<void> {
    const { overrides = [] } = open.wanted
    if (overrides.length === 0) return
    const { pins, log } = this.#options
    const before = open.ineffective.map(({ text }) => text).join('\n')
    open.ineffective = ineffectiveOverrides(overrides, {
      native: new Set([...(open.read ?? []), ...(await pins.names(key))].flatMap(operatorNames)),
      tools: open.served.tools.map((tool) => ({
        id: tool.id,
        names: namesFor(tool),
        approval: tool.policy.approval,
      })),
      isRead: open.read !== undefined,
      namesOf: (other) => this.#namesOf(other),
    })
    if (open.ineffective.map(({ text }) => text).join('\n') === before) return
    for (const { text, guards, isUndecided } of open.ineffective) {
      if (isUndecided) continue
      const about = { source: key, problem: text }
      if (guards)
        log.error(about, 'the tools of the source are not served: an approval override matches none of them')
      else log.warn(about, 'an override for the tools of this source has no effect')
    }
  }

  /** All names of the tools of a source; `undefined` while they are unknown. */
  #namesOf(key: string): ReadonlySet<string> | undefined {
    const open = this.#open.get(key)
    if (open === undefined || (open.served.tools.length === 0 && open.read === undefined)) return undefined
    return new Set(open.served.tools.flatMap(namesFor))
  }

  #toolkits(): ReadonlyMap<string, string> {
    const described = [...this.#open.values()].flatMap(({ wanted: { key, description } }) =>
      description === undefined ? [] : [[key, description] as const],
    )
    return new Map([...described, ...this.#options.own.toolkits])
  }

  #poll(): void {
    this.#timer = setTimeout(async () => {
      for (const { runner } of this.#open.values()) runner.readHealth()
      try {
        if ((await this.#options.epoch()) !== this.#epoch) await this.sync()
      } catch (error) {
        this.#options.log.error({ err: error }, 'the check for changed sources failed')
      }
      if (!this.#isClosed) this.#poll()
    }, EPOCH_POLL_MS).unref()
  }
}

/** Runs the calls to a source and counts them, so that the source is closed after the last call. */
class RunningCalls {
  readonly #invoke: Source['invoke']
  #count = 0
  #onIdle: (() => void) | undefined

  constructor(source: Source) {
    // Bound once: a source may be a view that looks up its members.
    this.#invoke = source.invoke.bind(source)
  }

  readonly invoke: Source['invoke'] = async (invocation) => {
    this.#count += 1
    try {
      return await this.#invoke(invocation)
    } finally {
      this.#count -= 1
      if (this.#count === 0) this.#onIdle?.()
    }
  }

  /** Waits until no call is running, but at most `MAX_FINISH_MS`. Called once. */
  async idle(): Promise<void> {
    if (this.#count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onIdle = resolve
    await untilAborted(promise, AbortSignal.timeout(MAX_FINISH_MS)).catch(() => undefined)
  }
}

function isWithheld({ ineffective }: Pick<OpenSource, 'ineffective'>): boolean {
  return ineffective.some(({ guards }) => guards)
}

/** The status with state `degraded` if an override has no effect, because the operator relies on the override. */
function withIneffective(status: SourceStatus, ineffective: readonly IneffectiveOverride[]): SourceStatus {
  const [first] = ineffective
  if (first === undefined) return status
  const guards = ineffective.flatMap(({ guards, text }) => (guards ? [text.replace(/^The /, 'the ')] : []))
  const reason = guards.length > 0 ? `Not served: ${guards.join(' Also, ')}` : first.text
  const isWell = status.state === 'ready' || status.state === 'starting'
  return {
    ...status,
    ...(isWell ? { state: 'degraded' as const, reason } : {}),
    warnings: [...ineffective.map(({ text }) => text), ...status.warnings],
  }
}

/** A digest that is equal for pins that would be projected to the same tools. */
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

/** A stand-in for a source that could not be opened: its pinned tools stay listed, and calls fail. */
export function failedSource(
  { key, type, kind }: Pick<Source, 'key' | 'type' | 'kind'>,
  error: unknown,
): Source {
  const reason = error instanceof Error ? error.message : String(error)
  return {
    key,
    type,
    kind,
    async discover() {
      throw fault('upstream_failed', reason)
    },
    async invoke() {
      const message = 'The source of this tool cannot be opened.'
      throw fault('upstream_failed', message, { canRetry: true, developerMessage: reason })
    },
    health: () => ({ state: 'down', reason }),
    close: () => Promise.resolve(),
  }
}
