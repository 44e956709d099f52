import { optionalInteger, type Row } from '#store/sql/row'
import type { Database } from './database.ts'

const SLOTS = ['claim_group', 'outcome_group', 'late_group'] as const

/** Lets go of what these calls hold in their groups; a group nobody holds loses its payload. */
export function dropReferences(database: Database, calls: readonly Row[]): void {
  const dropped = new Map<number, number>()
  for (const call of calls) {
    for (const slot of SLOTS) {
      const group = optionalInteger(call, slot)
      if (group !== undefined) dropped.set(group, (dropped.get(group) ?? 0) + 1)
    }
  }
  for (const [group, count] of dropped) database.run('dropReference', count, count, group)
}
