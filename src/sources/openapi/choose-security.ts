import type { ToolRequirements } from '#core/tool'
import type { BoundCredential } from './binding.ts'
import type { SecurityAlternative } from './operation.ts'
import type { CredentialOption } from './options.ts'
import type { SecurityScheme } from './security-schemes.ts'

export interface SecurityContext {
  readonly key: string
  readonly schemes: ReadonlyMap<string, SecurityScheme>
  readonly options: Readonly<Record<string, CredentialOption>>
}

export type SecurityChoice =
  | {
      readonly ok: true
      readonly credentials: readonly BoundCredential[]
      readonly tokenEndpoints: readonly string[]
      readonly requirements: ToolRequirements | undefined
    }
  | { readonly ok: false; readonly missing: readonly string[] }

/**
 * A tool demands all its requirements, so one alternative is chosen: the first whose every scheme the operator gave a
 * credential; else none, where the document allows that; else the first that plain secrets can answer.
 */
export function chooseSecurity(
  declared: readonly SecurityAlternative[] | undefined,
  context: SecurityContext,
): SecurityChoice {
  const { options } = context
  // Schemes that the operator describes are for documents that say nothing of security.
  const described = Object.entries(options).filter(([, { scheme }]) => scheme !== undefined)
  const alternatives =
    declared ?? (described.length === 0 ? [] : [new Map(described.map(([name]) => [name, []] as const))])
  const usable = alternatives.filter((alternative) => isUsable(alternative, context))
  const mapped = usable.find(
    (alternative) => alternative.size > 0 && [...alternative.keys()].every((name) => Object.hasOwn(options, name)),
  )
  const chosen =
    mapped ?? (alternatives.length === 0 ? new Map() : (usable.find(({ size }) => size === 0) ?? usable[0]))
  if (chosen === undefined) {
    return { ok: false, missing: [...new Set(alternatives.flatMap((alternative) => [...alternative.keys()]))] }
  }
  return demand(chosen, context)
}

function isUsable(alternative: SecurityAlternative, { schemes, options }: SecurityContext): boolean {
  const places = new Set<string>()
  for (const name of alternative.keys()) {
    const scheme = schemes.get(name)
    if (scheme === undefined || (scheme.isOAuth && !Object.hasOwn(options, name))) return false
    const place = `${scheme.placement.in} ${scheme.placement.name}`
    // Two credentials in one header cannot both be sent.
    if (places.has(place)) return false
    places.add(place)
  }
  return true
}

function demand(alternative: SecurityAlternative, { key, schemes, options }: SecurityContext): SecurityChoice {
  const credentials: BoundCredential[] = []
  const tokenEndpoints = new Set<string>()
  const scopes = new Map<string, Set<string>>()
  const secrets = new Set<string>()
  for (const [name, demanded] of alternative) {
    const scheme = schemes.get(name)
    if (scheme === undefined) continue
    const option = Object.hasOwn(options, name) ? options[name] : undefined
    for (const endpoint of scheme.tokenEndpoints) tokenEndpoints.add(endpoint)
    if (option?.provider !== undefined) {
      const known = scopes.get(option.provider) ?? new Set()
      for (const scope of [...(scheme.isOAuth ? demanded : []), ...option.scopes]) known.add(scope)
      scopes.set(option.provider, known)
      credentials.push({ ...scheme.placement, from: 'token', id: option.provider })
    } else {
      const id = option?.secret ?? defaultSecret(key, name)
      secrets.add(id)
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
  }
}

/** `petstore_api_key`: what a secret is called when the operator names none. */
export function defaultSecret(key: string, scheme: string): string {
  return `${key}_${scheme.replaceAll(/[^A-Za-z0-9_]/g, '_')}`
}
