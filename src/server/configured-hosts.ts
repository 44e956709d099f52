import type { Settings } from '#config/settings'

/** Hosts that the configuration names, as entries of an egress allow-list. */
export function configuredHosts({ auth }: Settings): readonly string[] {
  const urls = (auth.issuers ?? []).flatMap(({ issuer, jwksUri }) =>
    jwksUri === undefined ? [issuer] : [issuer, jwksUri],
  )
  return [...new Set(urls.flatMap(hostOf))]
}

function hostOf(text: string): readonly string[] {
  const url = URL.parse(text)
  if (url === null) return []
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  return [`${url.hostname}:${port}`]
}
