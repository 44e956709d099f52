import { shortHash } from '#core/hash'

/**
 * An address as it may be pinned, shown and logged: values of its query are often keys, so digests stand for them,
 * which still tell one from another (rule 32).
 */
export function shownAddress(address: string): string {
  const url = URL.parse(address)
  if (url === null || url.search === '') return address
  const digested = [...url.searchParams].map(([name, value]): [string, string] => [
    name,
    value === '' ? '' : `sha256-${shortHash(value)}`,
  ])
  url.search = new URLSearchParams(digested).toString()
  return url.href
}
