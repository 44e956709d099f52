import type { Egress, SafetyTier } from '#core/tool'

const TIERS = { pure: 0, read: 1, write: 2, exec: 3 } as const satisfies Record<SafetyTier, number>
/** What is not said may be anything the host does not own. */
const UNSAID = 3
const REACH = {
  none: 0,
  'safe-fetch': 1,
  'host-mediated': 2,
  'host-owned': 4,
} as const satisfies Record<Egress, number>

export function worstTier(tiers: readonly SafetyTier[]): SafetyTier {
  return tiers.reduce((worst, tier) => (TIERS[tier] > TIERS[worst] ? tier : worst), 'pure')
}

/** `undefined` when one of them says nothing (OWP-37). */
export function worstEgress(all: readonly (Egress | undefined)[]): Egress | undefined {
  const reach = (egress: Egress | undefined) => (egress === undefined ? UNSAID : REACH[egress])
  return all.reduce((worst, egress) => (reach(egress) > reach(worst) ? egress : worst), 'none')
}
