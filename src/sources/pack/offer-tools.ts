import type { JsonObject } from '#core/json'
import type { Discovery, OfferedTool } from '#core/ports/source'
import type { Egress, Tool, ToolPolicy } from '#core/tool'
import type { PolicyDefinition } from '#core/tools/define'
import { isWanted, policyOf } from '#sources/common/policy-options'
import type { LocatedPack } from './locate-pack.ts'
import type { PackOptions } from './options.ts'

/** A tool as its pack describes it: plain JSON, so that it can come from another process. */
export type DescribedTool = Pick<
  Tool,
  'title' | 'description' | 'inputSchema' | 'outputSchema' | 'requirements' | 'policy'
> & {
  readonly nativeName: string
}

export function describeTool(nativeName: string, tool: Tool): DescribedTool {
  const { title, description, inputSchema, outputSchema, requirements, policy } = tool
  return {
    nativeName,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema,
    outputSchema,
    ...(requirements === undefined ? {} : { requirements }),
    policy,
  }
}

export function offerTools(
  pack: LocatedPack,
  described: { readonly tools: readonly DescribedTool[]; readonly warnings: readonly string[] },
  options: PackOptions,
  egress: Egress,
): Discovery {
  return {
    identity: pack.identity,
    warnings: described.warnings,
    leftOut: described.tools.map(({ nativeName }) => nativeName).filter((name) => !isWanted(name, options)),
    tools: described.tools
      .filter(({ nativeName }) => isWanted(nativeName, options))
      .map((tool) => offer(tool, options, egress)),
  }
}

function offer(tool: DescribedTool, options: PackOptions, egress: Egress): OfferedTool {
  const { policy, ...rest } = tool
  const said = options.trustPolicy ? policy : restrictions(policy)
  return {
    ...rest,
    policy: policyOf(tool.nativeName, options, {
      // What an author who is believed says of it is kept; what we found out is looked at anew each time.
      ...(options.trustPolicy ? {} : { egress }),
      safetyTier: 'write',
      replay: 'non-deterministic',
      ...said,
    }),
    binding: BINDING,
  }
}

/** What a call runs is the pack itself, which the identity pins. */
const BINDING: JsonObject = {}

/** Of what a stranger says about its tools only what asks for more care (OWP-33). */
function restrictions({ approval, scopes, timeoutMs, costHint, latencyHint }: ToolPolicy): PolicyDefinition {
  return {
    approval,
    scopes,
    timeoutMs,
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
  }
}
