import type { ChangeClass } from '#core/ports/pin-store'

const WEIGHT = { wording: 0, widening: 1, breaking: 2, suspicious: 3 } satisfies Record<ChangeClass, number>

/** The heaviest of several; what says nothing is wording. */
export function worstClass(classes: readonly ChangeClass[]): ChangeClass {
  return classes.reduce<ChangeClass>(
    (worst, next) => (WEIGHT[next] > WEIGHT[worst] ? next : worst),
    'wording',
  )
}

/** Whether a tool with effects stops until somebody decides (rule 32). */
export function isGrave(change: ChangeClass): boolean {
  return WEIGHT[change] >= WEIGHT.breaking
}

/** The version of an accepted change: major when it breaks, minor when it widens, patch for words. */
export function raiseVersion(version: string, changes: readonly ChangeClass[]): string {
  const [major = 1, minor = 0, patch = 0] = version.split('.').map(Number)
  // A suspicious text breaks nothing by itself; what it came with counts.
  const weighed = worstClass(changes.filter((change) => change !== 'suspicious'))
  if (weighed === 'breaking') return `${major + 1}.0.0`
  return weighed === 'widening' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}
