import type { JsonObject } from '#core/json'
import { type Clock, SYSTEM_CLOCK } from '#core/runtime'
import type { KeyedRequestParts } from './keyed-requests.ts'

/** What is really served; the discovery document says this and nothing else (OWP-05). */
export interface OpenwopCapabilities {
  /** `/v1/tools` and `/v1/tools/{toolId}`; off = 404 on both (OWP-06). Default on. */
  readonly toolCatalog?: boolean
  /** `?view=compact`. Default on. */
  readonly compactView?: boolean
  /** `/v1/sessions`; every stateful use of a tool is bracketed by `tool.session.*` (C3). Default on. */
  readonly sessionLifecycle?: boolean
  /** Further families at the document's root, by name: `toolHooks`, `authorization` … (C4). */
  readonly families?: Readonly<Record<string, JsonObject>>
}

export interface OpenwopOptions {
  readonly serverVersion: string
  readonly capabilities?: OpenwopCapabilities
  /** Serve what the public conformance suite drives (OWP-100 to OWP-102, OWP-105). Never in production. */
  readonly testSeams?: boolean
  readonly clock?: Clock
  /** Where requests with an `Idempotency-Key` are noted; without it keys are ignored. */
  readonly store?: KeyedRequestParts['store']
}

/** The same with every default filled in. */
export interface OpenwopSettings {
  readonly serverVersion: string
  readonly capabilities: Required<OpenwopCapabilities>
  readonly clock: Clock
}

export function openwopSettings({
  serverVersion,
  capabilities = {},
  clock,
}: OpenwopOptions): OpenwopSettings {
  return {
    serverVersion,
    clock: clock ?? SYSTEM_CLOCK,
    capabilities: {
      toolCatalog: capabilities.toolCatalog ?? true,
      compactView: capabilities.compactView ?? true,
      sessionLifecycle: capabilities.sessionLifecycle ?? true,
      families: capabilities.families ?? {},
    },
  }
}
