import type { Principal } from '#core/principal'

/** Different for different principals, whatever stands in a tenant's or a principal's name. */
export function subjectKey({ tenant, id }: Principal): string {
  return `${tenant.length}:${tenant}${id}`
}
