import { existsSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { type Credentials, findWeakCredentials } from '#auth/api-keys'
import type { Settings } from '#config/settings'
import { isImported } from '#config/to-settings'
import { kindOf, parseAddress } from '#egress/addresses'
import { ANONYMOUS, LOCAL_CALLER, type Principal } from '#kernel/base/principal'
import type { BrokerObstacle } from '#kernel/base/token-broker'
import type { Tool } from '#kernel/tool/tool'
import { NO_TOOLSETS, selectorProblem, TOOLSET_PREFIX } from '#kernel/tool/toolsets'
import { consentObstacle } from '#oauth/broker'
import { providerLines } from '#stages/credentials/provider-lines'
import type { KeyStore } from '#store/keys'
import { parseStoreUrl } from '#store/stores'

/*
 * Checks before a start: credentials, exposure to other machines, consents and missing providers.
 * Used by the composition root, reloads and `collet doctor`.
 * Invariant: a server that other machines reach has a credential, unless the operator allows anonymous callers.
 */

/** A principal that was ended in the store cannot be used in the configuration again (rule 3). */
export async function checkPrincipals(
  { apiKeys }: Settings['auth'],
  keys: Pick<KeyStore, 'isEnded'>,
): Promise<void> {
  for (const { id, tenant } of apiKeys) {
    if (!(await keys.isEnded({ tenant, name: id }))) continue
    throw new StartRefused(
      `auth.apiKeys: the principal "${id}" of tenant "${tenant}" was ended with collet keys revoke, and names are never used again. Choose another id.`,
    )
  }
}

/** The settings that decide which callers reach which tools. */
export interface Exposure {
  readonly tools: Settings['tools']
  readonly auth: Credentials & Pick<Settings['auth'], 'issuers' | 'required'>
  readonly server: Pick<Settings['server'], 'host' | 'publicUrl'>
  readonly sources?: Iterable<readonly [string, { readonly type: string }]>
}

/** The exposure of a server with keys in the store, which require a credential just as configured keys do. */
export function asKeyed<T extends Pick<Exposure, 'auth'>>(exposure: T): T {
  return { ...exposure, auth: { ...exposure.auth, required: true } }
}

/** True if the store may have keys, as far as known before it is opened; a store that does not exist yet has none. */
export function mayHoldKeys({ store }: Pick<Settings, 'store'>): boolean {
  const url = parseStoreUrl(store)
  return url.kind === 'file' ? existsSync(url.path) : url.kind === 'server'
}

interface ExposureWarning {
  readonly text: string
  readonly advice: string
}

const CREDENTIALS = 'Make a key with collet keys create, or set auth.apiKeys or auth.jwt.'

/**
 * Without credentials only this machine may reach the server; with credentials other machines may reach it too, if the credentials are
 * strong (rule 28, OTC-97, OTC-103). Returns warnings; throws if starting would be unsafe.
 */
export function checkExposure(settings: Exposure, allowAnonymous: boolean): readonly ExposureWarning[] {
  const { auth, server } = settings
  const isOpen = !needsCredential(auth)
  const weak = findWeakCredentials(auth)
  const warnings = [
    ...(isOpen ? [...findUnreachableTools(settings), ...findOpenAddress(server, allowAnonymous)] : []),
    ...findUnknownTools(settings),
  ]
  if (isLoopback(server.host)) return [...weak.map(lackingCredential), ...warnings]
  if (weak.length > 0) throw new StartRefused(weak.join('\n'))
  if (!isOpen) return warnings
  if (allowAnonymous) {
    const text = `Anyone who can reach ${server.host} can call every tool, because anonymous callers are allowed.`
    return [lackingCredential(text), ...warnings]
  }
  throw new StartRefused(
    `Refusing to listen on ${server.host} without credentials: anyone who can reach it could call your tools. Make a key with collet keys create, configure auth.apiKeys, auth.jwt or auth.issuers (opentool start: -k KEY), listen on 127.0.0.1, or let everyone in with collet serve --allow-anonymous (\`allowAnonymous: true\` in code).`,
  )
}

interface AuthParts {
  readonly apiKeys: readonly unknown[]
  readonly jwt?: unknown
  readonly issuers?: readonly unknown[] | undefined
  readonly required?: boolean | undefined
}

/** True if the configuration alone refuses callers without a credential. */
export function needsCredential({ apiKeys, jwt, issuers = [], required = false }: AuthParts): boolean {
  return required || apiKeys.length > 0 || jwt !== undefined || issuers.length > 0
}

/** An entry that matches no tool grants nothing and is probably misspelled (OWP-57). */
function findUnknownTools({ auth, tools, sources = [] }: Exposure): readonly ExposureWarning[] {
  const keys = [...sources].map(([key]) => key)
  const named = new Set(auth.apiKeys.flatMap((entry) => entry.tools ?? []))
  return [...named].flatMap((text) => {
    // A config with unknown toolsets is refused when it is read.
    if (text.startsWith(TOOLSET_PREFIX) || isImported(text, sources)) return []
    const problem = selectorProblem(text, { tools, sources: keys, toolsets: NO_TOOLSETS })
    if (problem === undefined) return []
    const advice =
      'Write names as collet tools shows them, or remove the entry: an entry that matches no tool grants nothing.'
    return [{ text: `auth.apiKeys[].tools: ${problem}`, advice }]
  })
}

function findUnreachableTools(settings: Exposure): readonly ExposureWarning[] {
  const scoped = settings.tools.filter(({ policy }) => policy.scopes.length > 0).map(({ id }) => id)
  if (scoped.length === 0) return []
  const text = `No credential is configured, so no caller holds the scopes that these tools require: ${scoped.join(', ')}.`
  return [lackingCredential(text)]
}

/** A server that a proxy publishes refuses the proxy's requests while there is no credential. */
function findOpenAddress(server: Exposure['server'], allowAnonymous: boolean): readonly ExposureWarning[] {
  if (allowAnonymous || isOwnMachine(server)) return []
  const text = `server.publicUrl is ${server.publicUrl}, and there are no credentials: requests that come through a proxy will be refused. Make a key with collet keys create, or let everyone in with --allow-anonymous.`
  return [lackingCredential(text)]
}

function lackingCredential(text: string): ExposureWarning {
  return { text, advice: CREDENTIALS }
}

/** The settings are valid, but starting with them would be unsafe. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** True for a host name or address that reaches only this machine: `localhost`, 127.0.0.0/8, `::1` or `[::1]`. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return ['localhost', '::1', '[::1]'].includes(name) || (isIPv4(name) && name.startsWith('127.'))
}

/** True if only this machine reaches the server: it listens on loopback, and no proxy publishes it. */
export function isOwnMachine({ host, publicUrl }: Exposure['server']): boolean {
  return isLoopback(host) && (publicUrl === undefined || isLoopback(new URL(publicUrl).hostname))
}

/** True if users can be sent to a provider: they sign in, the server runs on their machine, or the config allows it (rule 25). */
export function canBindConsents({ oauth, server }: Pick<Settings, 'oauth' | 'server'>): boolean {
  return oauth.signIn !== undefined || isOwnMachine(server) || oauth.allowUnboundConsent
}

/** Why users cannot be asked for these scopes, as far as the config shows. */
export function obstacleIn(
  settings: Pick<Settings, 'oauth' | 'server'>,
  provider: string,
  scopes: readonly string[],
): BrokerObstacle | undefined {
  const { providers } = settings.oauth
  const found = Object.hasOwn(providers, provider) ? providers[provider] : undefined
  return consentObstacle(found, scopes, canBindConsents(settings))
}

/** The principal of callers without a credential; `undefined` if every caller needs one. */
export async function openCallerIn(
  { auth, server }: { readonly auth: AuthParts; readonly server: Exposure['server'] },
  keys: Pick<KeyStore, 'epoch'> | undefined,
): Promise<Principal | undefined> {
  if (needsCredential(auth) || (keys !== undefined && (await keys.epoch()) > 0)) return undefined
  return isOwnMachine(server) ? LOCAL_CALLER : ANONYMOUS
}

export function findConsentWarnings(settings: Pick<Settings, 'oauth' | 'server'>): readonly string[] {
  const { oauth, server } = settings
  const names = Object.keys(oauth.providers)
  if (names.length === 0 || oauth.signIn !== undefined || isOwnMachine(server)) return []
  return oauth.allowUnboundConsent
    ? [
        'Anyone who has the link to a challenge can consent, because oauth.allowUnboundConsent is set and oauth.signIn is not.',
      ]
    : [
        `No user can be asked for access to ${names.join(', ')}: on a server that other machines can reach, that needs oauth.signIn.`,
      ]
}

/** Tools that need an authorization from a provider that the config does not have, with the lines that add the provider. */
export function findAbsentProviders(
  { providers }: { readonly providers: Readonly<Record<string, unknown>> },
  tools: readonly Pick<Tool, 'parts' | 'requirements'>[],
): readonly { readonly text: string; readonly lines: readonly string[] }[] {
  const absent = new Map<string, Set<string>>()
  for (const { parts, requirements } of tools)
    for (const { id } of requirements?.authorization ?? [])
      if (!Object.hasOwn(providers, id)) absent.set(id, (absent.get(id) ?? new Set()).add(parts.base))
  return [...absent].map(([id, bases]) => ({
    text: `${[...bases].join(', ')} ${bases.size === 1 ? 'needs' : 'need'} ${id}, and the config has no oauth.providers.${id}: users cannot be asked for access, and callers have to send a token.`,
    lines: providerLines(id),
  }))
}

/** One warning for each missing provider; a developer also gets the config lines that add the provider. */
export function providerWarnings(
  oauth: Pick<Settings['oauth'], 'providers'>,
  tools: readonly Tool[],
  isDeveloping: boolean,
): readonly string[] {
  return findAbsentProviders(oauth, tools).map(({ text, lines }) =>
    isDeveloping ? [text, ...lines].join('\n  ') : `${text} collet doctor shows the lines to add.`,
  )
}

/** Names and addresses that only this machine or this network can reach. */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  const address = parseAddress(host)
  if (address !== undefined) return kindOf(address) !== 'global'
  return (
    host === 'localhost' || !host.includes('.') || /\.(?:local|localhost|internal|lan|home|test)$/.test(host)
  )
}
