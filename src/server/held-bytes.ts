import type { ToolError } from '#core/errors'
import { subjectKey } from '#core/limits/counters'
import { type LimitName, limitRefusal } from '#core/limits/settings'
import type { Principal } from '#core/principal'
import { httpFault } from './http-fault.ts'

const RETRY_MS = 1_000
/** How much of a body has to arrive, as long as it is not there. */
const LEAST_BYTES_A_SECOND = 4_096

export interface HeldBytesOptions {
  /** Of all bodies together. */
  readonly most: number
  /** The longest body: whatever others do, a principal that holds nothing may send one. */
  readonly longestBody: number
  /** How often it is looked whether bodies arrive. */
  readonly lookMs: number
  onRefused(name: LimitName): void
}

/**
 * Bytes of request bodies that this process holds: as they arrive, until their reply is made. Nobody gets all of them: a principal
 * may hold half as much as is free, and a tenant as much as is free, so that a third of the room is the most that one key takes,
 * half of it the most that one tenant takes, and something is always left for others.
 */
export class HeldBytes {
  readonly #options: HeldBytesOptions
  #held = 0
  readonly #byPrincipal = new Map<string, number>()
  readonly #byTenant = new Map<string, number>()
  readonly #arriving = new Set<HeldBody>()
  #looking: NodeJS.Timeout | undefined

  constructor(options: HeldBytesOptions) {
    this.#options = options
  }

  open(): HeldBody {
    return new HeldBody(this)
  }

  /** What arrives is counted, not what is announced: a slow sender takes no room it does not use. */
  add(bytes: number, principal: Principal): ToolError | undefined {
    const name = this.#whyNot(bytes, principal)
    if (name !== undefined) {
      this.#options.onRefused(name)
      return limitRefusal(name, RETRY_MS)
    }
    this.#count(bytes, principal)
    return undefined
  }

  free(bytes: number, principal: Principal): void {
    this.#count(-bytes, principal)
  }

  #whyNot(bytes: number, principal: Principal): LimitName | undefined {
    const { most, longestBody } = this.#options
    const free = most - this.#held
    if (bytes > free) return 'body_bytes'
    const own = (this.#byPrincipal.get(subjectKey(principal)) ?? 0) + bytes
    if (own > longestBody && own > (free - bytes) / 2) return 'principal_bodies'
    const shared = (this.#byTenant.get(principal.tenant) ?? 0) + bytes
    return shared > 2 * longestBody && shared > free - bytes ? 'tenant_bodies' : undefined
  }

  #count(bytes: number, principal: Principal): void {
    this.#held += bytes
    change(this.#byPrincipal, subjectKey(principal), bytes)
    change(this.#byTenant, principal.tenant, bytes)
  }

  /** From its first bytes that were not its last. */
  watch(body: HeldBody): void {
    this.#arriving.add(body)
    this.#looking ??= setInterval(() => this.#look(), this.#options.lookMs).unref()
  }

  forget(body: HeldBody): void {
    this.#arriving.delete(body)
  }

  #look(): void {
    const least = (LEAST_BYTES_A_SECOND * this.#options.lookMs) / 1_000
    for (const body of this.#arriving) {
      if (!body.hasArrived(least)) body.tooSlow()
    }
    if (this.#arriving.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
  }
}

function change(held: Map<string, number>, key: string, bytes: number): void {
  const now = (held.get(key) ?? 0) + bytes
  if (now === 0) held.delete(key)
  else held.set(key, now)
}

/** One body's share. */
export class HeldBody {
  readonly #all: HeldBytes
  #principal: Principal | undefined
  #bytes = 0
  /** When it was last looked at; the first time nothing is expected yet. */
  #seenBytes: number | undefined
  #stop: ((error: Error) => void) | undefined

  constructor(all: HeldBytes) {
    this.#all = all
  }

  /** Whose it is; known before any of it is read. */
  of(principal: Principal): this {
    this.#principal = principal
    return this
  }

  /** The refusal, if there is no room. */
  add(bytes: number): ToolError | undefined {
    if (this.#principal === undefined) return undefined
    const refusal = this.#all.add(bytes, this.#principal)
    if (refusal === undefined) this.#bytes += bytes
    return refusal
  }

  /** More is to come: `stop` is called when it does not. */
  wait(stop: (error: Error) => void): void {
    if (this.#stop === undefined) this.#all.watch(this)
    this.#stop = stop
  }

  /** Nothing more is to come. */
  complete(): void {
    if (this.#stop !== undefined) this.#all.forget(this)
    this.#stop = undefined
  }

  hasArrived(least: number): boolean {
    const before = this.#seenBytes
    this.#seenBytes = this.#bytes
    return before === undefined || this.#bytes - before >= least
  }

  tooSlow(): void {
    this.#stop?.(
      httpFault(408, `The body arrives too slowly; send at least ${LEAST_BYTES_A_SECOND} bytes a second.`),
    )
    this.complete()
  }

  free(): void {
    this.complete()
    if (this.#bytes === 0 || this.#principal === undefined) return
    this.#all.free(this.#bytes, this.#principal)
    this.#bytes = 0
  }
}
