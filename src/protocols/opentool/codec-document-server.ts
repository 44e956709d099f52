import type { OpenToolServer } from './codec-document.ts'

/**
 * Where the endpoints of a document's server are, without a slash at the end. The specification leaves the
 * base path open: a URL without a path gets `/opentool`, any other is used as it is (OTS-04). `undefined` if
 * it is no absolute http or https URL.
 */
export function serverBaseUrl({ url }: OpenToolServer): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { protocol, origin, pathname } = new URL(url)
  if (protocol !== 'http:' && protocol !== 'https:') return undefined
  return pathname === '/' ? `${origin}/opentool` : `${origin}${pathname.replace(/\/+$/, '')}`
}
