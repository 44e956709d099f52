import type { SourceOptions } from '#config/sources-schema'
import type { Source } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import type { SourceKind } from '#core/tool'
import { createCommandSource } from '#sources/command/index'

/** Opens a source of any type. */
export function createSource(key: string, options: SourceOptions, services: SourceServices): Source {
  switch (options.type) {
    case 'command':
      return createCommandSource(key, options, services)
    case 'custom':
      return options.open(key, services)
  }
}

/** What its tools are catalogued as. */
export function kindOf(options: SourceOptions): SourceKind {
  switch (options.type) {
    case 'command':
      return 'host-extension'
    case 'custom':
      return options.kind
  }
}
