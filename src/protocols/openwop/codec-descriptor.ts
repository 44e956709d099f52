import { needsCredential, type Tool, toldApproval } from '#core/tool'
import type { WireToolDescriptor } from './wire.ts'

/**
 * A tool as this catalog describes it. Copies only named members, so that nothing an author added to
 * requirements can leak (OWP-24), and takes tier, replay and egress from our policy alone (OWP-33).
 */
export function toDescriptor(tool: Tool): WireToolDescriptor {
  const { title, outputSchema, policy } = tool
  const { egress, costHint, latencyHint } = policy
  return {
    toolId: tool.catalogId,
    source: tool.source,
    ...(title === undefined ? {} : { title }),
    description: tool.description,
    inputSchema: tool.inputSchema,
    ...(outputSchema === null ? {} : { outputSchema }),
    auth: { scopes: policy.scopes, credentialRef: needsCredential(tool) },
    ...(egress === undefined ? {} : { egress }),
    approval: toldApproval(tool),
    replayPolicy: policy.replay,
    safetyTier: policy.safetyTier,
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
  }
}
