import { z } from 'zod'
import type { Source, SourceServices } from '#core/ports/source'
import type { SourceKind } from '#core/tool'

const KINDS = [
  'node-pack',
  'workflow',
  'mcp',
  'connector',
  'host-extension',
] as const satisfies readonly SourceKind[]

/** A source written as code: for upstreams that no other type speaks to. */
export const CUSTOM_OPTIONS = z.strictObject({
  type: z.literal('custom'),
  description: z.string().min(1).optional(),
  /** What its tools are catalogued as. */
  kind: z.enum(KINDS).default('connector'),
  open: z.custom<(key: string, services: SourceServices) => Source>((value) => typeof value === 'function', {
    error: 'expected a function that gives a source: (key, services) => ({ discover, invoke, … }).',
  }),
})

export type CustomOptions = z.output<typeof CUSTOM_OPTIONS>
