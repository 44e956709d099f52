/**
 * OTLP over HTTP with JSON: how attributes, times and the resource are encoded, and how one kind of telemetry is sent to a
 * collector. `tracing.ts` sends spans with it, `metrics-export.ts` metrics.
 * Invariant: if a collector is slow or down, telemetry is dropped and calls are not delayed; an outage is logged once.
 */

import type { Logger } from '#kernel/base/logger'
import type { Secret } from '#kernel/base/secret'
import { VERSION } from '#server/version'

/** Where a process sends telemetry, and how it identifies itself. */
export interface OtlpTarget {
  readonly url: string
  /** Headers of the collector, for example a credential. */
  readonly headers?: Readonly<Record<string, Secret>> | undefined
  readonly resource: OtlpResource
  readonly log: Logger
  readonly fetch?: typeof fetch | undefined
}

export interface OtlpResource {
  /** Id of this process among the replicas. */
  readonly instanceId: string
  /** Further attributes of the resource; they take precedence. */
  readonly attributes?: OtlpAttributes | undefined
}

export type OtlpAttributes = Readonly<Record<string, string | number | boolean>>

const REQUEST_TIMEOUT_MS = 5_000

/** Sends bodies to one address, each within the time limit of one request. */
export class OtlpSender {
  readonly #target: OtlpTarget
  readonly #what: string
  #isFailing = false
  #dropped = 0

  /** @param what the kind of telemetry, for the log: `traces` or `metrics` */
  constructor(target: OtlpTarget, what: string) {
    this.#target = target
    this.#what = what
  }

  /** True from a failed request until the next one that succeeds. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  /** Counts what was dropped before it was sent. */
  drop(count: number): void {
    this.#dropped += count
  }

  /** Never throws. `count` spans or metrics are lost if the request fails. */
  async send(body: object, count: number): Promise<void> {
    const { url, headers = {}, log, fetch: send = fetch } = this.#target
    try {
      const response = await send(url, {
        method: 'POST',
        headers: {
          ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()])),
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      })
      await response.body?.cancel()
      if (!response.ok) throw new Error(`The collector answered ${response.status}.`)
      if (this.#isFailing) log.info({ dropped: this.#dropped }, `${this.#what} are exported again`)
      this.#isFailing = false
      this.#dropped = 0
    } catch (err) {
      this.#dropped += count
      if (!this.#isFailing)
        log.warn(
          { err, url },
          `${this.#what} cannot be exported; they are dropped until the collector answers`,
        )
      this.#isFailing = true
    }
  }
}

export const OTLP_SCOPE = { name: 'collet', version: VERSION }

export function encodeResource({ instanceId, attributes }: OtlpResource): object {
  return {
    attributes: encodeAttributes({
      'service.name': 'collet',
      'service.version': VERSION,
      'service.instance.id': instanceId,
      ...attributes,
    }),
  }
}

export function encodeAttributes(attributes: OtlpAttributes): readonly object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: encodeValue(value) }))
}

function encodeValue(value: string | number | boolean): object {
  switch (typeof value) {
    case 'string':
      return { stringValue: value }
    case 'boolean':
      return { boolValue: value }
    case 'number':
      // OTLP writes 64-bit integers as text in JSON.
      return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  }
}

/** Nanoseconds do not fit a double, microseconds do. */
export function toNanoseconds(ms: number): string {
  return `${Math.round(ms * 1_000)}000`
}
