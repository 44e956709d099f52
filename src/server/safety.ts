import { existsSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { type Credentials, findWeakCredentials } from '#auth/api-keys'
import type { Settings } from '#config/settings'
import { isImported } from '#config/to-settings'
import type { KeyStore } from '#core/ports/key-store'
import { idleSelector, NO_TOOLSETS, TOOLSET_PREFIX } from '#core/tools/toolsets'
import { parseStoreUrl } from '#store/stores'

/** Rule 3: a name that was ended in the store is not given again by the configuration either. */
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

/** The part of the settings that says who could call what. */
export interface Exposure {
  readonly tools: Settings['tools']
  readonly auth: Credentials & Pick<Settings['auth'], 'issuers' | 'required'>
  readonly server: Pick<Settings['server'], 'host'>
  readonly sources?: Iterable<readonly [string, { readonly type: string }]>
}

/** The same where the store holds keys, which close a server as well as configured ones. */
export function asKeyed<T extends Pick<Exposure, 'auth'>>(exposure: T): T {
  return { ...exposure, auth: { ...exposure.auth, required: true } }
}

/** Whether the store may hold keys, as far as that is known before it is opened: one that is not there holds none. */
export function mayHoldKeys({ store }: Pick<Settings, 'store'>): boolean {
  const url = parseStoreUrl(store)
  return url.kind === 'file' ? existsSync(url.path) : url.kind === 'server'
}

/** What is worth a line at the start, and what to do about it. */
interface ExposureWarning {
  readonly text: string
  readonly advice: string
}

const CREDENTIALS = 'Make a key with collet keys create, or set auth.apiKeys or auth.jwt.'

/**
 * Rule 28, OTC-97 and OTC-103: nobody but this machine without credentials, and no weak ones towards others.
 * Gives what is worth a warning; throws when starting would be unsafe.
 */
export function checkExposure(settings: Exposure, allowAnonymous: boolean): readonly ExposureWarning[] {
  const { auth, server } = settings
  const isOpen = !needsCredential(auth)
  const weak = findWeakCredentials(auth)
  const warnings = [...(isOpen ? findUnreachableTools(settings) : []), ...findUnknownTools(settings)]
  if (isLoopback(server.host)) return [...weak.map(lackingCredential), ...warnings]
  if (weak.length > 0) throw new StartRefused(weak.join('\n'))
  if (!isOpen) return warnings
  if (allowAnonymous) {
    const text = `Anybody who can reach ${server.host} can call every tool, because anonymous callers are allowed.`
    return [lackingCredential(text), ...warnings]
  }
  throw new StartRefused(
    `Refusing to listen on ${server.host} without credentials: anyone who can reach it could call your tools. Make a key with collet keys create, configure auth.apiKeys, auth.jwt or auth.issuers (opentool start: -k KEY), listen on 127.0.0.1, or let everybody in with collet serve --allow-anonymous (\`allowAnonymous: true\` in code).`,
  )
}

/** Whether the configuration alone lets in nobody without a credential. */
export function needsCredential({ apiKeys, jwt, issuers = [], required = false }: Exposure['auth']): boolean {
  return required || apiKeys.length > 0 || jwt !== undefined || issuers.length > 0
}

/** OWP-57: an entry that names no tool opens nothing, which is hardly what was meant. */
function findUnknownTools({ auth, tools, sources = [] }: Exposure): readonly ExposureWarning[] {
  const keys = [...sources].map(([key]) => key)
  const named = new Set(auth.apiKeys.flatMap((entry) => entry.tools ?? []))
  return [...named].flatMap((text) => {
    // A config whose toolsets are not there is refused when it is read.
    if (text.startsWith(TOOLSET_PREFIX) || isImported(text, sources)) return []
    const problem = idleSelector(text, { tools, sources: keys, toolsets: NO_TOOLSETS })
    if (problem === undefined) return []
    const advice =
      'Write names as collet tools shows them, or take it out: an entry that names no tool opens nothing.'
    return [{ text: `auth.apiKeys[].tools: ${problem}`, advice }]
  })
}

function findUnreachableTools(settings: Exposure): readonly ExposureWarning[] {
  const scoped = settings.tools.filter(({ policy }) => policy.scopes.length > 0).map(({ id }) => id)
  if (scoped.length === 0) return []
  const text = `No credential is configured, so no caller holds the scopes that these tools require: ${scoped.join(', ')}.`
  return [lackingCredential(text)]
}

function lackingCredential(text: string): ExposureWarning {
  return { text, advice: CREDENTIALS }
}

/** The settings are understood, and starting with them would be unsafe. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}

/** Whether a host name or address reaches only this machine: `localhost`, 127.0.0.0/8, `::1` or `[::1]`. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return (
    name === 'localhost' || name === '::1' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'))
  )
}

/** Whether nobody beyond this machine is meant to reach the server: it listens here, and no proxy publishes it. */
export function isOwnMachine({ host, publicUrl }: Settings['server']): boolean {
  return isLoopback(host) && (publicUrl === undefined || isLoopback(new URL(publicUrl).hostname))
}
