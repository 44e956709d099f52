import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'

/** Descriptions of large services are larger than what one call may bring back. */
const MOST_DESCRIPTION_BYTES = 64 * 1024 * 1024

/**
 * The way out of an import. The host that the operator typed may be local; where it leads is guarded all the same, so
 * that a description cannot make us ask around in here (rule 33).
 */
export function createImportFetch(typed: string | undefined): GuardedFetch {
  const url = typed === undefined ? null : URL.parse(typed)
  return createGuardedFetch({
    allow: url === null ? [] : [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`],
    maxResponseBytes: MOST_DESCRIPTION_BYTES,
  })
}
