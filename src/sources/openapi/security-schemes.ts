import { isJsonObject, type JsonObject } from '#core/json'
import type { BoundCredential } from './binding.ts'
import type { Documents } from './documents.ts'
import { entriesOf, isLocatedObject, memberOf } from './located.ts'
import type { Dialect } from './operation.ts'
import { type CredentialOption, HEADER_NAME } from './options.ts'

/** Where a credential goes and what else the document says of it. */
export interface SecurityScheme {
  readonly placement: Pick<BoundCredential, 'in' | 'name' | 'form'>
  /** Scopes mean something, and a token comes from an authorization server. */
  readonly isOAuth: boolean
  readonly tokenEndpoints: readonly string[]
}

const AUTHORIZATION = { in: 'header', name: 'authorization' } as const
const PLACES = ['header', 'query', 'cookie'] as const

/** Every scheme of the document that can be served, and those that the operator describes. */
export function readSchemes(
  documents: Documents,
  dialect: Dialect,
  security: Readonly<Record<string, CredentialOption>>,
): ReadonlyMap<string, SecurityScheme> {
  const { root } = documents
  const components = memberOf(root, 'components')
  const declared =
    dialect === '2.0'
      ? memberOf(root, 'securityDefinitions')
      : components === undefined
        ? undefined
        : memberOf(components, 'securitySchemes')
  const schemes = new Map<string, SecurityScheme>()
  for (const [name, value] of entriesOf(declared?.value)) {
    const located = documents.resolve({ value, document: declared?.document ?? root.document })
    const scheme = isLocatedObject(located) ? readScheme(located.value) : undefined
    if (scheme !== undefined) schemes.set(name, scheme)
  }
  for (const [name, { scheme: written }] of Object.entries(security)) {
    const scheme = written === undefined ? undefined : readScheme(written)
    if (scheme !== undefined) schemes.set(name, scheme)
  }
  return schemes
}

function readScheme(written: JsonObject): SecurityScheme | undefined {
  switch (written.type) {
    case 'apiKey': {
      const place = PLACES.find((known) => known === written.in)
      if (place === undefined || typeof written.name !== 'string') return undefined
      if (place === 'header' && !HEADER_NAME.test(written.name)) return undefined
      const name = place === 'header' ? written.name.toLowerCase() : written.name
      return plainScheme({ in: place, name, form: 'plain' })
    }
    case 'basic':
      return plainScheme({ ...AUTHORIZATION, form: 'basic' })
    case 'http': {
      const form = String(written.scheme).toLowerCase()
      return form === 'basic' || form === 'bearer' ? plainScheme({ ...AUTHORIZATION, form }) : undefined
    }
    case 'oauth2':
    case 'openIdConnect':
      return {
        placement: { ...AUTHORIZATION, form: 'bearer' },
        isOAuth: true,
        tokenEndpoints: endpointsOf(written),
      }
    default:
      return undefined
  }
}

function plainScheme(placement: SecurityScheme['placement']): SecurityScheme {
  return { placement, isOAuth: false, tokenEndpoints: [] }
}

/** Of every flow of 3.x, of the one flow of 2.0, or the discovery document. */
function endpointsOf(written: JsonObject): readonly string[] {
  const flows = [written, ...Object.values(isJsonObject(written.flows) ? written.flows : {})]
  const urls = flows.flatMap((flow) =>
    isJsonObject(flow)
      ? [
          flow.authorizationUrl,
          flow.tokenUrl,
          flow.refreshUrl,
          flow.deviceAuthorizationUrl,
          flow.openIdConnectUrl,
        ]
      : [],
  )
  return [...new Set(urls.filter((url) => typeof url === 'string'))].sort()
}
