import type { Tool } from '#core/tool'
import { factsOf } from '#core/tools/facts'
import type { WireToolDescriptor } from './wire.ts'

/**
 * A tool as this catalog describes it. Copies only named members, so that nothing an author added to
 * requirements can leak (OWP-24), and takes tier, replay and egress from our policy alone (OWP-33).
 */
export function toDescriptor(tool: Tool): WireToolDescriptor {
  const { title, outputSchema } = tool
  const {
    catalogId,
    source,
    scopes,
    credential,
    egress,
    approval,
    replay,
    safetyTier,
    costHint,
    latencyHint,
  } = factsOf(tool)
  return {
    toolId: catalogId,
    source,
    ...(title === undefined ? {} : { title }),
    description: tool.description,
    inputSchema: tool.inputSchema,
    ...(outputSchema === null ? {} : { outputSchema }),
    auth: { scopes, credentialRef: credential },
    ...(egress === undefined ? {} : { egress }),
    approval,
    replayPolicy: replay,
    safetyTier,
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
  }
}
