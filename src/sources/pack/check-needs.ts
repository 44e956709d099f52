import { fault } from '#core/errors'
import { NEEDS, type PackOptions } from './options.ts'

/** OWP-88: a pack that needs what nobody granted is refused before any of it runs. */
export function checkNeeds(requires: readonly string[], { grant }: Pick<PackOptions, 'grant'>): void {
  const granted: ReadonlySet<string> = new Set(grant)
  const unmet = requires.filter((need) => !granted.has(need))
  if (unmet.length === 0) return
  const known: ReadonlySet<string> = new Set(NEEDS)
  const strange = unmet.filter((need) => !known.has(need))
  const fix =
    strange.length > 0
      ? `${strange.join(', ')} is nothing that can be granted.`
      : `Add grant: [${[...grant, ...unmet].map((need) => `'${need}'`).join(', ')}] to it if you trust the pack with that.`
  throw fault(
    'upstream_failed',
    `pack_runtime_requirement_unmet: the pack needs ${unmet.join(', ')}, which is not granted. ${fix}`,
  )
}
