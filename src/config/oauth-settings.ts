import { didYouMean } from '#core/nearest-name'
import type { Tool } from '#core/tool'
import { ConfigError, type ConfigProblem } from './config-error.ts'
import type { ParsedOAuth } from './oauth-schema.ts'
import type { OAuthClientSettings, OAuthSettings } from './settings.ts'

type ParsedClient = Pick<ParsedOAuth['providers'][string], 'clientId' | 'clientSecret' | 'clientAuth'> &
  Partial<
    Record<'issuer' | 'authorizationEndpoint' | 'tokenEndpoint' | 'revocationEndpoint', string | undefined>
  >

/** Throws when a tool needs what its provider is not set up for (OWP-79). */
export function toOAuthSettings(parsed: ParsedOAuth, tools: readonly Tool[], file: string): OAuthSettings {
  const problems = tools.flatMap((tool) => findProblems(parsed, tool, file))
  if (problems.length > 0) throw new ConfigError(problems)
  const { signIn, allowUnboundConsent } = parsed
  return {
    providers: Object.fromEntries(
      Object.entries(parsed.providers).map(([id, provider]) => [
        id,
        {
          ...clientOf(provider),
          scopes: provider.scopes,
          alwaysScopes: provider.alwaysScopes,
          parameters: provider.parameters,
          resource: provider.resource,
        },
      ]),
    ),
    signIn:
      signIn === undefined
        ? undefined
        : {
            ...clientOf(signIn),
            scopes: signIn.scopes,
            userClaim: signIn.userClaim,
            owners: signIn.owners,
          },
    allowUnboundConsent,
  }
}

function clientOf(parsed: ParsedClient): OAuthClientSettings {
  const { clientId, clientSecret, clientAuth } = parsed
  return {
    clientId,
    clientSecret,
    clientAuth: clientAuth ?? (clientSecret === undefined ? 'none' : 'basic'),
    issuer: parsed.issuer,
    authorizationEndpoint: parsed.authorizationEndpoint,
    tokenEndpoint: parsed.tokenEndpoint,
    revocationEndpoint: parsed.revocationEndpoint,
  }
}

/** A provider without an entry is fine: callers then bring its tokens. One that is nearly the name of an entry is a slip. */
function findProblems({ providers }: ParsedOAuth, tool: Tool, file: string): readonly ConfigProblem[] {
  const names = Object.keys(providers)
  return (tool.requirements?.authorization ?? []).flatMap(({ id, oauth2 }) => {
    const provider = Object.hasOwn(providers, id) ? providers[id] : undefined
    const meant = provider === undefined && names.length > 0 ? didYouMean(id, names) : ''
    const where = `${tool.id} requirements.authorization`
    if (meant !== '') {
      const message = `oauth_provider_unsupported: "${id}" is not in oauth.providers.${meant}`
      return [{ severity: 'error', file, where, message } as const]
    }
    const allowed = provider?.scopes
    const strangers =
      allowed === undefined ? [] : (oauth2?.scopes ?? []).filter((scope) => !allowed.includes(scope))
    if (strangers.length === 0) return []
    const message = `oauth_scope_unsupported: oauth.providers.${id}.scopes does not have ${strangers.join(', ')}.`
    return [{ severity: 'error', file, where, message } as const]
  })
}
