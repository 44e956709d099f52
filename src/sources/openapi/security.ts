import { isJsonObject, type JsonObject } from '#core/json'
import type { ToolRequirements } from '#core/tool'
import type { BoundCredential } from './binding.ts'
import { type Documents, entriesOf, isLocatedObject, memberOf } from './documents.ts'
import type { Dialect, SecurityAlternative } from './operation.ts'
import { type CredentialOption, HEADER_NAME } from './options.ts'

export interface SecurityContext {
  readonly key: string
  readonly schemes: ReadonlyMap<string, SecurityScheme>
  readonly options: Readonly<Record<string, CredentialOption>>
}

type SecurityChoice =
  | {
      readonly ok: true
      readonly credentials: readonly BoundCredential[]
      readonly tokenEndpoints: readonly string[]
      readonly requirements: ToolRequirements | undefined
      /** Schemes of OAuth for which no provider is named, each with the secret that stands in. */
      readonly standIns: ReadonlyMap<string, string>
    }
  | { readonly ok: false; readonly problem: string }

/**
 * A tool demands all its requirements, so one alternative is chosen: the first whose every place the operator gave a
 * credential; else none, where the document allows that; else the first that plain secrets can answer; else one where
 * the secret is an access token.
 */
export function chooseSecurity(
  declared: readonly SecurityAlternative[] | undefined,
  context: SecurityContext,
): SecurityChoice {
  const alternatives = declared ?? describedAlternatives(context)
  if (alternatives.length === 0) return demand([], context)
  const usable = alternatives.flatMap((alternative) => {
    const locations = locationsOf(alternative, context)
    return locations === undefined ? [] : [locations]
  })
  const chosen =
    usable.find((locations) => locations.length > 0 && locations.every(isAnswered)) ??
    usable.find(({ length }) => length === 0) ??
    usable.find((locations) => locations.every((location) => !location[0].scheme.isOAuth)) ??
    usable[0]
  return chosen === undefined
    ? { ok: false, problem: advise(alternatives, context) }
    : demand(chosen, context)
}

/** Schemes that the operator describes are for documents that say nothing of security. */
function describedAlternatives({ options }: SecurityContext): readonly SecurityAlternative[] {
  const described = Object.entries(options).filter(([, { scheme }]) => scheme !== undefined)
  return described.length === 0 ? [] : [new Map(described.map(([name]) => [name, []]))]
}

interface AskedScheme {
  readonly name: string
  readonly scheme: SecurityScheme
  readonly scopes: readonly string[]
  readonly option: CredentialOption | undefined
}

/** What one header, query parameter or cookie has to satisfy: one credential is sent there, whatever asks for it. */
type CredentialLocation = readonly [AskedScheme, ...AskedScheme[]]

/**
 * The places of one alternative; `undefined` where it cannot be sent. Documents name several schemes for one place
 * when one token may come from several flows, as Google's do; one credential then answers them all.
 */
function locationsOf(
  alternative: SecurityAlternative,
  context: SecurityContext,
): readonly CredentialLocation[] | undefined {
  const locations = new Map<string, CredentialLocation>()
  for (const [name, scopes] of alternative) {
    const scheme = context.schemes.get(name)
    if (scheme === undefined) return undefined
    const option = Object.hasOwn(context.options, name) ? context.options[name] : undefined
    const key = `${scheme.placement.in} ${scheme.placement.name}`
    const before = locations.get(key)
    const asked = { name, scheme, scopes, option }
    locations.set(key, before === undefined ? [asked] : [...before, asked])
  }
  const all = [...locations.values()]
  return all.every(isSendable) ? all : undefined
}

/** Two credentials for one place cannot both be sent, nor one in two forms. */
function isSendable(location: CredentialLocation): boolean {
  const answered = location.filter(({ option }) => option !== undefined)
  const deciding = answered.length > 0 ? answered : location
  const forms = new Set(deciding.map(({ scheme }) => scheme.placement.form))
  const credentials = new Set(
    answered.map(({ option }) => JSON.stringify([option?.provider, option?.secret])),
  )
  return forms.size === 1 && credentials.size <= 1
}

function isAnswered(location: CredentialLocation): boolean {
  return location.some(({ option }) => option !== undefined)
}

/** What to write so that the first alternative can be sent; following it to the letter gives the tool. */
function advise(
  [alternative = new Map()]: readonly SecurityAlternative[],
  { key, schemes, options }: SecurityContext,
): string {
  const asked = [...alternative.keys()]
  const unknown = asked.filter((name) => !schemes.has(name))
  const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ')
  if (unknown.length > 0) {
    const secret = defaultSecret(key, unknown[0] ?? '')
    const entries = unknown.map((name) => [name, { secret, scheme: { type: 'http', scheme: 'bearer' } }])
    return `its security schemes (${quoted(unknown)}) are not served; if the service also takes a credential as a bearer token (or \`apiKey\`, or \`basic\`), write \`security: ${JSON.stringify(Object.fromEntries(entries))}\``
  }
  const first = asked.find((name) => Object.hasOwn(options, name)) ?? asked[0] ?? ''
  const {
    provider,
    secret = defaultSecret(key, first),
    scheme,
  } = (Object.hasOwn(options, first) ? options[first] : undefined) ?? {}
  const entry = {
    ...(provider === undefined ? { secret } : { provider }),
    ...(scheme === undefined ? {} : { scheme }),
  }
  return `its security schemes (${quoted(asked)}) want two credentials in one place, where one can be sent; write \`security: ${JSON.stringify({ [first]: entry })}\` and nothing for the others`
}

function demand(locations: readonly CredentialLocation[], { key }: SecurityContext): SecurityChoice {
  const credentials: BoundCredential[] = []
  const tokenEndpoints = new Set<string>()
  const scopes = new Map<string, Set<string>>()
  const secrets = new Set<string>()
  const standIns = new Map<string, string>()
  for (const location of locations) {
    const { name, scheme, option } = location.find((asked) => asked.option !== undefined) ?? location[0]
    for (const asked of location)
      for (const endpoint of asked.scheme.tokenEndpoints) tokenEndpoints.add(endpoint)
    if (option?.provider !== undefined) {
      const known = scopes.get(option.provider) ?? new Set()
      for (const asked of location) {
        for (const scope of asked.scheme.isOAuth ? asked.scopes : []) known.add(scope)
        for (const scope of asked.option?.scopes ?? []) known.add(scope)
      }
      scopes.set(option.provider, known)
      credentials.push({ ...scheme.placement, from: 'token', id: option.provider })
    } else {
      const id = option?.secret ?? defaultSecret(key, name)
      secrets.add(id)
      if (scheme.isOAuth && option === undefined) standIns.set(name, id)
      credentials.push({ ...scheme.placement, from: 'secret', id })
    }
  }
  const requirements = {
    ...(scopes.size === 0
      ? {}
      : { authorization: [...scopes].map(([id, wanted]) => ({ id, oauth2: { scopes: [...wanted] } })) }),
    ...(secrets.size === 0 ? {} : { secrets: [...secrets].map((id) => ({ id })) }),
  }
  return {
    ok: true,
    credentials,
    tokenEndpoints: [...tokenEndpoints],
    requirements: credentials.length === 0 ? undefined : requirements,
    standIns,
  }
}

/** `petstore_api_key`: what a secret is called when the operator names none. */
function defaultSecret(key: string, scheme: string): string {
  return `${key}_${scheme.replaceAll(/[^A-Za-z0-9_]/g, '_')}`
}

/** Where a credential goes and what else the document says of it. */
interface SecurityScheme {
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
      const location = PLACES.find((known) => known === written.in)
      if (location === undefined || typeof written.name !== 'string') return undefined
      if (location === 'header' && !HEADER_NAME.test(written.name)) return undefined
      const name = location === 'header' ? written.name.toLowerCase() : written.name
      return plainScheme({ in: location, name, form: 'plain' })
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
