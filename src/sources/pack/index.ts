import { fault } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { untilAborted } from '#kernel/base/waiting'
import type { Egress, PolicyDefinition } from '#kernel/tool/tool'
import { isWanted, policyOf } from '#sources/common/options'
import { DEFAULT_PATH, exitsCleanly, findConfinement } from '#sources/common/process'
import type {
  Discovery,
  Invocation,
  OfferedTool,
  Source,
  SourceHealth,
  SourceServices,
} from '#sources/kit/source'
import {
  type DescribedPack,
  describePack,
  type LoadedPack,
  type LocatedPack,
  loadPack,
  locatePack,
  offerTools,
  runPackTool,
} from './load.ts'
import { NEEDS, type PackOptions } from './options.ts'
import { isSealed, probeCommand } from './process.ts'
import { PackSupervisor } from './supervisor.ts'

/**
 * The source type `pack`: tools of a package or folder (openwop's node-pack), run in this process or in a separate one.
 * Invariant: no code of a pack runs before its needs are granted (OWP-88).
 */

const UNREAD = 'The pack has not been read yet.'

export function createPackSource(key: string, options: PackOptions, services: SourceServices): Source {
  return new PackSource(key, options, services)
}

class PackSource implements Source {
  readonly type = 'pack'
  readonly kind = 'node-pack'
  readonly key: string
  readonly vendor?: string
  readonly #options: PackOptions
  readonly #services: SourceServices
  readonly #supervisor: PackSupervisor | undefined
  #loaded: LoadedPack | undefined
  #problem: string | undefined = UNREAD
  #warnings: readonly string[] = []
  #reading: Promise<Discovery> | undefined
  #isClosed = false
  #isSandboxed: boolean

  constructor(key: string, options: PackOptions, services: SourceServices) {
    this.key = key
    if (options.vendor !== undefined) this.vendor = options.vendor
    this.#options = options
    this.#services = services
    this.#supervisor = options.isolation === 'process' ? new PackSupervisor(options, services) : undefined
    // If a sandbox is required, the pack never runs without one.
    this.#isSandboxed = options.sandbox === 'required'
  }

  discover(): Promise<Discovery> {
    this.#reading = this.#read()
    return this.#reading
  }

  async #read(): Promise<Discovery> {
    try {
      const pack = await locatePack(this.#options, this.#services.folder)
      checkNeeds(pack.requires, this.#options)
      const bounds = await this.#findSandbox(pack)
      this.#isSandboxed = bounds.bwrap !== undefined
      const { tools, warnings } = await this.#describePack(pack, bounds.bwrap)
      const allWarnings = bounds.problem === undefined ? warnings : [bounds.problem, ...warnings]
      const discovery = offerTools(pack, { tools, warnings: allWarnings }, this.#options, this.#egress)
      this.#problem = undefined
      this.#warnings = discovery.warnings
      return discovery
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error)
      throw error
    }
  }

  async invoke(invocation: Invocation): Promise<JsonValue | undefined> {
    // Accepted tools are served before their pack has been read, so the first calls after a start wait here.
    if (this.#problem === UNREAD && !this.#isClosed) {
      // A failure is recorded in `#problem`.
      const reading = (this.#reading ?? this.discover()).catch(() => undefined)
      await untilAborted(reading, invocation.context.signal)
    }
    if (this.#isClosed || this.#problem !== undefined) throw unusable(this.#problem ?? 'it is closed.')
    if (this.#supervisor !== undefined) return await this.#supervisor.invoke(invocation)
    const tool = this.#loaded?.tools.get(invocation.nativeName)
    if (tool === undefined) throw unusable(`it no longer has a tool ${invocation.nativeName}.`)
    return await runPackTool(tool, invocation.input, invocation.context)
  }

  policyFor({ nativeName, policy }: OfferedTool): PolicyDefinition {
    const egress = this.#egress
    const declared = this.#options.trustPolicy ? { egress, ...policy } : { ...policy, egress }
    return policyOf(nativeName, this.#options, declared)
  }

  /** `safe-fetch` only if the pack's process cannot use the network in any other way (OWP-37). */
  get #egress(): Egress {
    return this.#isSandboxed && isSealed(this.#options) ? 'safe-fetch' : 'host-owned'
  }

  wants({ nativeName }: OfferedTool): boolean {
    return isWanted(nativeName, this.#options)
  }

  health(): SourceHealth {
    if (this.#problem !== undefined) return { state: 'down', reason: this.#problem }
    const own = this.#supervisor?.health() ?? { state: 'ready' as const }
    if (own.state !== 'ready' || this.#warnings.length === 0) return own
    return { state: 'degraded', reason: this.#warnings.join(' ') }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#supervisor?.close()
  }

  /** The sandbox of the pack's process, or a warning if there is none. */
  async #findSandbox(pack: LocatedPack): Promise<{ readonly bwrap?: string; readonly problem?: string }> {
    const { isolation, sandbox } = this.#options
    if (isolation === 'none' || sandbox === 'none') return {}
    const { folder, environment } = this.#services
    const { bwrap, unavailableReason } = await findConfinement(environment?.PATH || DEFAULT_PATH)
    const plan = { pack, options: this.#options, folder }
    if (bwrap !== undefined && (await exitsCleanly(probeCommand({ ...plan, bwrap })))) return { bwrap }
    const why = bwrap === undefined ? unavailableReason : 'Node does not start in bubblewrap (bwrap) here'
    if (sandbox === 'required') {
      throw fault('upstream_failed', `The pack is not run: its sandbox is required, and ${why}.`)
    }
    return {
      problem: `Its process can use the network and see other processes: ${why}. Install bubblewrap, or set sandbox to "none" to accept this.`,
    }
  }

  async #describePack(pack: LocatedPack, bwrap: string | undefined): Promise<DescribedPack> {
    if (this.#supervisor !== undefined) return await this.#supervisor.describePack(pack, bwrap)
    // A process loads a module only once, so a new version of the pack is used only after a restart.
    this.#loaded ??= await loadPack(pack.entry)
    return describePack(this.#loaded)
  }
}

/** The error for a call that was not run, so that it may be repeated (rule 9). */
function unusable(why: string) {
  return fault('upstream_failed', `This pack cannot be used: ${why}`, { canRetry: true, retryAfterMs: 5_000 })
}

/** Refuses a pack that needs more than was granted, before any of its code runs (OWP-88). */
function checkNeeds(requires: readonly string[], { grant }: Pick<PackOptions, 'grant'>): void {
  const granted: ReadonlySet<string> = new Set(grant)
  const unmet = requires.filter((need) => !granted.has(need))
  if (unmet.length === 0) return
  const known: ReadonlySet<string> = new Set(NEEDS)
  const unknown = unmet.filter((need) => !known.has(need))
  const fix =
    unknown.length > 0
      ? `${unknown.join(', ')} cannot be granted.`
      : `Add grant: [${[...grant, ...unmet].map((need) => `'${need}'`).join(', ')}] to the source if you trust the pack with these permissions.`
  const problem = `the pack needs ${unmet.join(', ')}, which is not granted.`
  throw fault('upstream_failed', `pack_runtime_requirement_unmet: ${problem} ${fix}`)
}
