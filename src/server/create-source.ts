import type { SourceOptions } from '#config/schema'
import type { Source, SourceServices } from '#core/ports/source'
import type { SourceKind } from '#core/tool'
import { createCommandSource } from '#sources/command/index'
import { createMcpSource } from '#sources/mcp/index'
import { createOpenapiSource } from '#sources/openapi/index'
import { createOpenToolSource } from '#sources/opentool/index'
import { createOtcSource } from '#sources/otc/index'
import { createPackSource } from '#sources/pack/index'

/** Opens a source of any type. */
export function createSource(key: string, options: SourceOptions, services: SourceServices): Source {
  switch (options.type) {
    case 'command':
      return createCommandSource(key, options, services)
    case 'mcp':
      return createMcpSource(key, options, services)
    case 'openapi':
      return createOpenapiSource(key, options, services)
    case 'otc':
      return createOtcSource(key, options, services)
    case 'opentool':
      return createOpenToolSource(key, options, services)
    case 'pack':
      return createPackSource(key, options, services)
    case 'custom':
      return options.open(key, services)
  }
}

/** What its tools are catalogued as. */
export function kindOf(options: SourceOptions): SourceKind {
  switch (options.type) {
    case 'command':
      return 'host-extension'
    case 'mcp':
      return 'mcp'
    case 'openapi':
    case 'otc':
    case 'opentool':
      return 'connector'
    case 'pack':
      return 'node-pack'
    case 'custom':
      return options.kind
  }
}
