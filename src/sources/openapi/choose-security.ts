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
      /** Schemes of OAuth for which no provider is named, each with the secret that stands in. */
      readonly standIns: ReadonlyMap<string, string>
    }
  | { readonly ok: false; readonly missing: readonly string[] }

/**
 * A tool demands all its requirements, so one alternative is chosen: the first whose every scheme the operator gave a
 * credential; else none, where the document allows that; else the first that plain secrets can answer; else one where
 * the secret is an access token.
 */
export function chooseSecurity(
  declared: readonly SecurityAlternative[] | undefined,
  context: SecurityContext,
): SecurityChoice {
  const alternatives = declared ?? describedAlternatives(context)
  if (alternatives.length === 0) return demand(new Map(), context)
  const usable = alternatives.filter((alternative) => isUsable(alternative, context))
  const chosen =
    usable.find(
      (alternative) => alternative.size > 0 && isEvery(alternative, (name) => isMapped(name, context)),
    ) ??
    usable.find(({ size }) => size === 0) ??
    usable.find((alternative) =>
      isEvery(alternative, (name) => context.schemes.get(name)?.isOAuth === false),
    ) ??
    usable[0]
  if (chosen !== undefined) return demand(chosen, context)
  return { ok: false, missing: [...new Set(alternatives.flatMap((alternative) => [...alternative.keys()]))] }
}

/** Schemes that the operator describes are for documents that say nothing of security. */
function describedAlternatives({ options }: SecurityContext): readonly SecurityAlternative[] {
  const described = Object.entries(options).filter(([, { scheme }]) => scheme !== undefined)
  return described.length === 0 ? [] : [new Map(described.map(([name]) => [name, []]))]
}

function isEvery(alternative: SecurityAlternative, fits: (name: string) => boolean): boolean {
  return [...alternative.keys()].every(fits)
}

function isMapped(name: string, { options }: SecurityContext): boolean {
  return Object.hasOwn(options, name)
}

function isUsable(alternative: SecurityAlternative, { schemes }: SecurityContext): boolean {
  const places = new Set<string>()
  for (const name of alternative.keys()) {
    const scheme = schemes.get(name)
    if (scheme === undefined) return false
    const place = `${scheme.placement.in} ${scheme.placement.name}`
    // Two credentials in one header cannot both be sent.
    if (places.has(place)) return false
    places.add(place)
  }
  return true
}

function demand(
  alternative: SecurityAlternative,
  { key, schemes, options }: SecurityContext,
): SecurityChoice {
  const credentials: BoundCredential[] = []
  const tokenEndpoints = new Set<string>()
  const scopes = new Map<string, Set<string>>()
  const secrets = new Set<string>()
  const standIns = new Map<string, string>()
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
export function defaultSecret(key: string, scheme: string): string {
  return `${key}_${scheme.replaceAll(/[^A-Za-z0-9_]/g, '_')}`
}
