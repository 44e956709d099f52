import type { Finding } from './finding.ts'
import type { Approval, SafetyTier, Tool } from './tool.ts'
import { compareVersions, parseToolName, plainVersion } from './tool-id.ts'

const APPROVALS = { never: 0, conditional: 1, always: 2 } as const satisfies Record<Approval, number>
const TIERS = { pure: 0, read: 1, write: 2, exec: 3 } as const satisfies Record<SafetyTier, number>

/** Rule 21: callers choose the version, so an old one that asks for less is a way around the new one. */
export function checkLaxerVersions(tools: readonly Tool[], acknowledged: readonly string[]): Finding[] {
  const findings: Finding[] = []
  for (const versions of Map.groupBy(tools, ({ parts }) => parts.base).values()) {
    const inOrder = versions.toSorted((left, right) =>
      compareVersions(left.parts.version, right.parts.version),
    )
    for (const [index, older] of inOrder.entries()) {
      if (acknowledged.some((written) => names(written, older))) continue
      const newer = inOrder.slice(index + 1).find((candidate) => laxities(older, candidate).length > 0)
      if (newer === undefined) continue
      findings.push({
        toolId: older.id,
        where: 'policy',
        problem: `Is laxer than ${newer.id}: ${laxities(older, newer).join(', ')}. Callers could choose it instead.`,
        fix: `Remove the old version, make it as strict, or list "${older.id}" in \`acknowledgeLaxerVersions\`.`,
      })
    }
  }
  return findings
}

/** A yes is for one version, so a name without any names none. */
function names(written: string, { parts, name, catalogId }: Tool): boolean {
  const ref = parseToolName(written)
  if (ref?.version !== plainVersion(parts.version)) return false
  return [parts.base, name, catalogId].includes(ref.base)
}

function laxities({ policy: older }: Tool, { policy: newer }: Tool): readonly string[] {
  const missing = newer.scopes.filter((scope) => !older.scopes.includes(scope))
  return [
    ...(APPROVALS[older.approval] < APPROVALS[newer.approval]
      ? [`approval is '${older.approval}', not '${newer.approval}'`]
      : []),
    ...(TIERS[older.safetyTier] < TIERS[newer.safetyTier]
      ? [`safetyTier is '${older.safetyTier}', not '${newer.safetyTier}'`]
      : []),
    ...(missing.length === 0 ? [] : [`it does not ask for ${missing.join(' and ')}`]),
  ]
}
