import { mcp } from './mcp/protocol.ts'
import { opentool } from './opentool/protocol.ts'
import { openwop } from './openwop/protocol.ts'
import { otc } from './otc/protocol.ts'
import type { SectionConfig, SectionSettings } from './protocol.ts'

/** Every protocol that is served, under the name that its section of the config has. */
export const PROTOCOLS = { openwop, otc, opentool, mcp } as const

type Protocols = typeof PROTOCOLS

/** The sections of all protocols as the operator writes them. */
export type ProtocolConfigs = {
  readonly [Name in keyof Protocols]?: SectionConfig<Protocols[Name]['settings']>
}

/** The same with every default filled in. */
export type ProtocolSettings = {
  readonly [Name in keyof Protocols]: SectionSettings<Protocols[Name]['settings']>
}
