import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { ToolRequirements } from '#kernel/tool/tool'
import type { BoundCredential } from './binding.ts'
import { type Documents, entriesIn, memberOf } from './documents.ts'
import type { Dialect, Operation, Parameter, SecurityAlternative } from './operation.ts'
import { type CredentialOption, HEADER_NAME } from './options.ts'

/**
 * Chooses the credentials of each tool from the security schemes of the document and the operator's options.
 * `reading.ts` and `offer-tool.ts` use it. Invariant: one header, query parameter or cookie contains at most one credential.
 */

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
      /** OAuth schemes without a provider, each with the secret that replaces the token. */
      readonly standIns: ReadonlyMap<string, string>
      /** Schemes whose optional parameter is left out, because no credential is configured. */
      readonly unsent: readonly string[]
    }
  | { readonly ok: false; readonly problem: string }

/**
 * Chooses one alternative, because a tool needs all its requirements at once: the first for which the operator configured all
 * credentials; else no credentials, if the document allows that; else the first that needs only plain secrets; else the first,
 * with an access token as the secret.
 */
export function chooseSecurity(
  { security, parameters }: Pick<Operation, 'security' | 'parameters'>,
  context: SecurityContext,
): SecurityChoice {
  const alternatives = security ?? describedAlternatives(context)
  const chosen = alternatives.length === 0 ? [] : chooseAlternative(alternatives, context)
  if (chosen === undefined) return { ok: false, problem: advise(alternatives, context) }
  const { sent, unsent } = declaredCredentials(parameters, chosen, context)
  const carriers = [...chosen, ...sent]
  return { ...requirementsFor(carriers, context), unsent: carriers.length === 0 ? unsent : [] }
}

function chooseAlternative(
  alternatives: readonly SecurityAlternative[],
  context: SecurityContext,
): readonly Carrier[] | undefined {
  const usable = alternatives
    .map((alternative) => carriersOf(alternative, context))
    .filter((carriers) => carriers !== undefined)
  return (
    usable.find((carriers) => carriers.length > 0 && carriers.every(isConfigured)) ??
    usable.find(({ length }) => length === 0) ??
    usable.find((carriers) => carriers.every((carrier) => !carrier[0].scheme.isOAuth)) ??
    usable[0]
  )
}

/**
 * Credentials that the operation declares as parameters, besides those of the chosen alternative. A model must not fill them in.
 * So each is sent as a credential if the operation requires it or the operator configured one, and left out otherwise.
 */
function declaredCredentials(
  parameters: readonly Parameter[],
  chosen: readonly Carrier[],
  { schemes, options }: SecurityContext,
): { readonly sent: readonly Carrier[]; readonly unsent: readonly string[] } {
  const sent = new Map<string, Carrier>()
  const unsent: string[] = []
  const taken = new Set(chosen.map(([{ scheme }]) => placeKey(scheme.placement)))
  for (const parameter of parameters) {
    const key = placeKey(parameter)
    const named = [...schemes].filter(([, { placement }]) => placeKey(placement) === key)
    const found = named.find(([name]) => Object.hasOwn(options, name)) ?? named[0]
    if (found === undefined || taken.has(key)) continue
    const [name, scheme] = found
    const option = optionOf(options, name)
    if (parameter.required || option !== undefined) sent.set(key, [{ name, scheme, scopes: [], option }])
    else unsent.push(name)
  }
  return { sent: [...sent.values()], unsent }
}

/** Identifies where a parameter or credential is in a request; header names are case-insensitive. */
export function placeKey({ in: place, name }: { readonly in: string; readonly name: string }): string {
  return `${place} ${place === 'header' ? name.toLowerCase() : name}`
}

function optionOf(options: SecurityContext['options'], name: string): CredentialOption | undefined {
  return Object.hasOwn(options, name) ? options[name] : undefined
}

/** The schemes in the operator's options, which are used if the document declares no security. */
function describedAlternatives({ options }: SecurityContext): readonly SecurityAlternative[] {
  const described = Object.entries(options).filter(([, { scheme }]) => scheme !== undefined)
  return described.length === 0 ? [] : [new Map(described.map(([name]) => [name, []]))]
}

interface RequiredScheme {
  readonly name: string
  readonly scheme: SecurityScheme
  readonly scopes: readonly string[]
  /** The operator's option for the scheme, if there is one. */
  readonly option: CredentialOption | undefined
}

/** The schemes that share one header, query parameter or cookie. */
type Carrier = readonly [RequiredScheme, ...RequiredScheme[]]

/**
 * The carriers of one alternative; `undefined` if it cannot be sent. A document may name several schemes for one carrier if a
 * token may come from several flows, as Google's documents do; one credential then satisfies them all.
 */
function carriersOf(
  alternative: SecurityAlternative,
  context: SecurityContext,
): readonly Carrier[] | undefined {
  const carriers = new Map<string, Carrier>()
  for (const [name, scopes] of alternative) {
    const scheme = context.schemes.get(name)
    if (scheme === undefined) return undefined
    const key = placeKey(scheme.placement)
    const before = carriers.get(key)
    const required = { name, scheme, scopes, option: optionOf(context.options, name) }
    carriers.set(key, before === undefined ? [required] : [...before, required])
  }
  const all = [...carriers.values()]
  return all.every(isSendable) ? all : undefined
}

/** False if the carrier would need two credentials, or one credential in two forms. */
function isSendable(carrier: Carrier): boolean {
  const configured = carrier.filter(({ option }) => option !== undefined)
  const deciding = configured.length > 0 ? configured : carrier
  const forms = new Set(deciding.map(({ scheme }) => scheme.placement.form))
  const credentials = new Set(
    configured.map(({ option }) => JSON.stringify([option?.provider, option?.secret])),
  )
  return forms.size === 1 && credentials.size <= 1
}

function isConfigured(carrier: Carrier): boolean {
  return carrier.some(({ option }) => option !== undefined)
}

/** Explains why no alternative is usable, and which configuration would make the first one usable. */
function advise(
  [alternative = new Map()]: readonly SecurityAlternative[],
  { key, schemes, options }: SecurityContext,
): string {
  const required = [...alternative.keys()]
  const unknown = required.filter((name) => !schemes.has(name))
  const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ')
  if (unknown.length > 0) {
    const secret = defaultSecret(key, unknown[0] ?? '')
    const entries = unknown.map((name) => [name, { secret, scheme: { type: 'http', scheme: 'bearer' } }])
    return `its security schemes (${quoted(unknown)}) are not supported; if the service also accepts a credential as a bearer token (or \`apiKey\`, or \`basic\`), write \`security: ${JSON.stringify(Object.fromEntries(entries))}\``
  }
  const first = required.find((name) => Object.hasOwn(options, name)) ?? required[0] ?? ''
  const { provider, secret = defaultSecret(key, first), scheme } = optionOf(options, first) ?? {}
  // Members that are `undefined` are not written.
  const entry = { ...(provider === undefined ? { secret } : { provider }), scheme }
  return `its security schemes (${quoted(required)}) need two credentials in the same header, query parameter or cookie, which can contain only one; write \`security: ${JSON.stringify({ [first]: entry })}\` and nothing for the others`
}

function requirementsFor(
  carriers: readonly Carrier[],
  { key }: SecurityContext,
): Omit<Extract<SecurityChoice, { ok: true }>, 'unsent'> {
  const credentials: BoundCredential[] = []
  const tokenEndpoints = new Set<string>()
  const scopes = new Map<string, Set<string>>()
  const secrets = new Set<string>()
  const standIns = new Map<string, string>()
  for (const carrier of carriers) {
    const { name, scheme, option } = carrier.find((required) => required.option !== undefined) ?? carrier[0]
    for (const endpoint of carrier.flatMap((required) => required.scheme.tokenEndpoints))
      tokenEndpoints.add(endpoint)
    if (option?.provider !== undefined) {
      const wanted = carrier.flatMap((required) => [
        ...(required.scheme.isOAuth ? required.scopes : []),
        ...(required.option?.scopes ?? []),
      ])
      scopes.set(option.provider, new Set([...(scopes.get(option.provider) ?? []), ...wanted]))
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

/** The default name of a secret: `petstore_api_key`. */
function defaultSecret(key: string, scheme: string): string {
  return `${key}_${scheme.replaceAll(/[^A-Za-z0-9_]/g, '_')}`
}

interface SecurityScheme {
  readonly placement: Pick<BoundCredential, 'in' | 'name' | 'form'>
  /** True if the scheme uses scopes and tokens from an authorization server. */
  readonly isOAuth: boolean
  readonly tokenEndpoints: readonly string[]
}

const AUTHORIZATION = { in: 'header', name: 'authorization' } as const
const PLACES = ['header', 'query', 'cookie'] as const
const ENDPOINTS = [
  'authorizationUrl',
  'tokenUrl',
  'refreshUrl',
  'deviceAuthorizationUrl',
  'openIdConnectUrl',
] as const

/** The supported schemes of the document, and those in the operator's options. */
export function readSchemes(
  documents: Documents,
  dialect: Dialect,
  security: Readonly<Record<string, CredentialOption>>,
): ReadonlyMap<string, SecurityScheme> {
  const { root } = documents
  const owner = dialect === '2.0' ? root : memberOf(root, 'components')
  const member = dialect === '2.0' ? 'securityDefinitions' : 'securitySchemes'
  const declared = owner === undefined ? [] : entriesIn(owner, member)
  const written = [
    ...declared.map(([name, node]) => [name, documents.resolve(node)?.value] as const),
    ...Object.entries(security).map(([name, { scheme }]) => [name, scheme] as const),
  ]
  return new Map(
    written.flatMap(([name, value]) => {
      const scheme = isJsonObject(value) ? readScheme(value) : undefined
      return scheme === undefined ? [] : [[name, scheme]]
    }),
  )
}

function readScheme(written: JsonObject): SecurityScheme | undefined {
  switch (written.type) {
    case 'apiKey': {
      const carrier = PLACES.find((known) => known === written.in)
      if (carrier === undefined || typeof written.name !== 'string') return undefined
      if (carrier === 'header' && !HEADER_NAME.test(written.name)) return undefined
      const name = carrier === 'header' ? written.name.toLowerCase() : written.name
      return plainScheme({ in: carrier, name, form: 'plain' })
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

/** The endpoints of all flows (3.x), of the only flow (2.0), or the discovery document. */
function endpointsOf(written: JsonObject): readonly string[] {
  const flows = [written, ...Object.values(isJsonObject(written.flows) ? written.flows : {})]
  const urls = flows.filter(isJsonObject).flatMap((flow) => ENDPOINTS.map((name) => flow[name]))
  return [...new Set(urls.filter((url) => typeof url === 'string'))].sort()
}
