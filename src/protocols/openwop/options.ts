import type { JsonObject } from '#core/json'

/** What is really served; the discovery document says this and nothing else (OWP-05). */
export interface OpenwopCapabilities {
  /** `/v1/tools` and `/v1/tools/{toolId}`; off = 404 on both (OWP-06). Default on. */
  readonly toolCatalog?: boolean
  /** `?view=compact`. Default on. */
  readonly compactView?: boolean
  /** Whether every stateful use of a tool is bracketed by `tool.session.*` (C3). Default off. */
  readonly sessionLifecycle?: boolean
  /** Further families at the document's root, by name: `toolHooks`, `authorization` … (C4). */
  readonly families?: Readonly<Record<string, JsonObject>>
}

export interface OpenwopOptions {
  readonly serverVersion: string
  readonly capabilities?: OpenwopCapabilities
}

/** The same with every default filled in. */
export interface OpenwopSettings {
  readonly serverVersion: string
  readonly capabilities: Required<OpenwopCapabilities>
}

export function openwopSettings({ serverVersion, capabilities = {} }: OpenwopOptions): OpenwopSettings {
  return {
    serverVersion,
    capabilities: {
      toolCatalog: capabilities.toolCatalog ?? true,
      compactView: capabilities.compactView ?? true,
      sessionLifecycle: capabilities.sessionLifecycle ?? false,
      families: capabilities.families ?? {},
    },
  }
}
