import type { Tool } from '#core/tool'
import { tool } from '#core/tools/define'
import { requireTools } from '#core/tools/prepare-tools'
import { SEAM_SCOPE } from './safe-fetch-tool.ts'

/** Makes the run that the other one is asked in. Everybody may call it. */
export const OPENING_TOOL = 'Seam.Open'
export const HOOKED_TOOL = 'Seam.Hooked'

const definition = {
  description: 'Does nothing. For conformance tests only.',
  input: { type: 'object' },
  output: null,
  run: () => undefined,
} as const

const [opening, hooked] = requireTools([
  tool({ ...definition, id: `${OPENING_TOOL}@1.0.0`, policy: { safetyTier: 'pure' } }),
  tool({ ...definition, id: `${HOOKED_TOOL}@1.0.0`, policy: { scopes: [SEAM_SCOPE] } }),
])

/** The tool the suite speaks of, by its name and with its scopes; somebody without any role never sees it. */
export function toolHooksTools(toolName: string, requiredScopes: readonly string[]): readonly Tool[] {
  if (opening === undefined || hooked === undefined) return []
  const scopes = [...hooked.policy.scopes, ...requiredScopes]
  return [opening, { ...hooked, catalogId: toolName, policy: { ...hooked.policy, scopes } }]
}
