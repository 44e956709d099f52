import type { Settings } from '#config/settings'

/** Hosts that the configuration names, as entries of an egress allow-list. */
export function configuredHosts({
  auth,
  oauth,
  approvals,
}: Pick<Settings, 'auth' | 'oauth' | 'approvals'>): readonly string[] {
  const { providers, signIn } = oauth
  const clients = [...Object.values(providers), ...(signIn === undefined ? [] : [signIn])]
  const urls = [
    ...(auth.issuers ?? []).flatMap(({ issuer, jwksUri }) => [issuer, jwksUri]),
    ...approvals.webhooks.map(({ url }) => url),
    ...clients.flatMap(({ issuer, tokenEndpoint, revocationEndpoint }) => [
      issuer,
      tokenEndpoint,
      revocationEndpoint,
    ]),
  ]
  return [...new Set(urls.flatMap((url) => (url === undefined ? [] : hostOf(url))))]
}

/** `host:port` of an address; nothing for what is no URL. */
export function hostOf(text: string): readonly string[] {
  const url = URL.parse(text)
  if (url === null) return []
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  return [`${url.hostname}:${port}`]
}
