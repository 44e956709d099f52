import { fault, type ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { Invocation, SourceHealth, SourceServices } from '#sources/kit/source'
import type { DescribedPack, LocatedPack } from './load.ts'
import type { PackOptions } from './options.ts'
import { PackProcess } from './process.ts'

/**
 * Keeps the process of a pack running: starts it on demand, but only after a pause if it crashed. The source uses it. Invariant: at
 * most one process gets new calls, and none outlives the source.
 */

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 30_000
/** The exit of a process that ran this long is not part of a crash loop. */
const STABLE_MS = 60_000

export class PackSupervisor {
  readonly #options: PackOptions
  readonly #services: SourceServices
  #pack: LocatedPack | undefined
  #bwrap: string | undefined
  #process: PackProcess | undefined
  /** Processes of other versions that still run a call. */
  readonly #retiring = new Set<PackProcess>()
  #crashes = 0
  #startedAtMs = 0
  #notBeforeMs = 0
  #lastEnd: string | undefined
  #isClosed = false

  constructor(options: PackOptions, services: SourceServices) {
    this.#options = options
    this.#services = services
  }

  /** Reads the tools of the pack. The process of another version is ended after its last call. */
  async describePack(pack: LocatedPack, bwrap: string | undefined): Promise<DescribedPack> {
    const isSame =
      JSON.stringify(this.#pack?.identity) === JSON.stringify(pack.identity) && bwrap === this.#bwrap
    this.#pack = pack
    this.#bwrap = bwrap
    if (!isSame) this.#retire()
    return await this.#current().described
  }

  async invoke(invocation: Invocation): Promise<JsonValue | undefined> {
    const process = this.#current()
    const { tools } = await process.described
    const tool = tools.find(({ nativeName }) => nativeName === invocation.nativeName)
    if (tool === undefined) {
      const message = `The pack no longer has a tool ${invocation.nativeName}. Nothing was run.`
      throw fault('upstream_failed', message)
    }
    if (process.calls >= this.#options.maxCalls) {
      const message = `${process.calls} calls are already running in this pack; nothing was run.`
      throw fault('upstream_failed', message, { canRetry: true, retryAfterMs: 1_000 })
    }
    return await process.invoke(invocation, tool)
  }

  health(): SourceHealth {
    if (this.#lastEnd === undefined) return { state: 'ready' }
    return { state: 'degraded', reason: `Its process ended (${this.#lastEnd}) and will be restarted.` }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const processes = [...this.#retiring, ...(this.#process === undefined ? [] : [this.#process])]
    for (const process of processes) process.kill('its source is closed')
    await Promise.all(processes.map(({ ended }) => ended))
  }

  #current(): PackProcess {
    if (this.#isClosed) throw notRunning('its source is closed', 1_000)
    if (this.#process !== undefined && !this.#process.hasEnded) return this.#process
    const { clock } = this.#services
    const waitMs = this.#notBeforeMs - clock.monotonicMs()
    if (waitMs > 0) throw notRunning(this.#lastEnd ?? 'it ended', Math.ceil(waitMs))
    if (this.#pack === undefined) throw notRunning('it was not loaded yet', 1_000)
    const { folder } = this.#services
    const plan = { pack: this.#pack, options: this.#options, folder, bwrap: this.#bwrap }
    const started = new PackProcess(plan, this.#services)
    this.#process = started
    this.#startedAtMs = clock.monotonicMs()
    started.described.then(
      () => {
        this.#lastEnd = undefined
      },
      () => undefined,
    )
    started.ended.then((why) => this.#noteEnd(started, why))
    return started
  }

  #noteEnd(ended: PackProcess, why: string): void {
    if (this.#process !== ended || this.#isClosed) return
    const { clock, log } = this.#services
    const nowMs = clock.monotonicMs()
    this.#crashes = nowMs - this.#startedAtMs > STABLE_MS ? 1 : this.#crashes + 1
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (this.#crashes - 1), MAX_PAUSE_MS)
    this.#notBeforeMs = nowMs + pauseMs
    this.#lastEnd = why
    log.warn({ why, pauseMs }, 'the process of a pack ended')
  }

  /** Ends the current process after its calls, so that the next call starts a new one without a pause. */
  #retire(): void {
    const old = this.#process
    this.#process = undefined
    this.#crashes = 0
    this.#notBeforeMs = 0
    if (old === undefined) return
    this.#retiring.add(old)
    old.ended.then(() => this.#retiring.delete(old))
    const end = (): void => {
      if (old.calls === 0) old.kill('another version of the pack replaces it')
      else if (!old.hasEnded) setTimeout(end, 1_000).unref()
    }
    end()
  }
}

/** The error if no process is running. Nothing was sent, so the call may be repeated (rule 9). */
function notRunning(why: string, retryAfterMs: number): ToolError {
  const message = 'The process of this pack is not running now. Nothing was run; try again shortly.'
  const developerMessage = `The pack's process: ${why}.`
  return fault('upstream_failed', message, { canRetry: true, retryAfterMs, developerMessage })
}
