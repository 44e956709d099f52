import { mcp } from './mcp/protocol.ts'
import { opentool } from './opentool/protocol.ts'
import { openwop } from './openwop/protocol.ts'
import { otc } from './otc/protocol.ts'
import type { SectionConfig, SectionSettings } from './protocol.ts'

/*
 * The list of served protocols. The config reads their sections from it, and the server their routes, roots and headers.
 * To add a protocol, add one entry here.
 * Invariant: the keys are the names of the config sections.
 */

export const PROTOCOLS = { openwop, otc, opentool, mcp } as const

type Protocols = typeof PROTOCOLS

/** Protocol sections as the operator writes them. */
export type ProtocolConfigs = {
  readonly [Name in keyof Protocols]?: SectionConfig<Protocols[Name]['settings']>
}

/** Protocol sections with every default filled in. */
export type ProtocolSettings = {
  readonly [Name in keyof Protocols]: SectionSettings<Protocols[Name]['settings']>
}

/** Options that a command sets for individual protocols, by protocol. */
export type ProtocolOptions = NonNullable<Parameters<Protocols['opentool']['serve']>[2]>
