import { parseToolId } from '#core/ids'
import type { Tool, ToolPolicy } from '#core/tool'

const POLICY: ToolPolicy = {
  safetyTier: 'write',
  replay: 'non-deterministic',
  approval: 'never',
  scopes: [],
  timeoutMs: 5_000,
  rerunWindowMs: 3_600_000,
}

export type SampleTool = Partial<Omit<Tool, 'policy'>> & { readonly policy?: Partial<ToolPolicy> }

/** A prepared tool without a schema library: takes any object, gives any value. */
export function sampleTool(id: string, run: Tool['run'], changes: SampleTool = {}): Tool {
  const parts = parseToolId(id)
  if (parts === undefined) throw new Error(`'${id}' is not a tool id`)
  return {
    id,
    parts,
    name: parts.base.replace('.', '_'),
    catalogId: `openwop:${parts.base}`,
    description: 'A tool for tests.',
    source: 'node-pack',
    inputSchema: {},
    outputSchema: {},
    definitionHash: `definition of ${id}`,
    checkInput: () => [],
    parseInput: (input) => ({ ok: true, input }),
    checkOutput: () => [],
    run,
    ...changes,
    policy: { ...POLICY, ...changes.policy },
  }
}
