import { z } from 'zod'
import { COMMAND_OPTIONS } from '#sources/command/options'
import { CUSTOM_OPTIONS } from '#sources/custom/options'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { OTC_OPTIONS } from '#sources/otc/options'
import { PACK_OPTIONS } from '#sources/pack/options'

/** The options of every type of source. */
export const SOURCE_OPTIONS = z.discriminatedUnion('type', [
  COMMAND_OPTIONS,
  MCP_OPTIONS,
  OPENAPI_OPTIONS,
  OTC_OPTIONS,
  OPENTOOL_OPTIONS,
  PACK_OPTIONS,
  CUSTOM_OPTIONS,
])

export type SourceOptions = z.output<typeof SOURCE_OPTIONS>

/** The key is the toolkit of the source's tools. */
const SOURCE_KEY = z.string().regex(/^[A-Za-z0-9_]{1,64}$/)

export const SOURCES = z.record(SOURCE_KEY, SOURCE_OPTIONS).default({})
