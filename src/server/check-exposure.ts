import { type Credentials, findWeakCredentials } from '#auth/key-strength'
import type { Settings } from '#config/settings'
import { isLoopback } from './loopback.ts'
import { StartRefused } from './start-refused.ts'

/** The part of the settings that says who could call what. */
export interface Exposure {
  readonly tools: Settings['tools']
  readonly auth: Credentials & Pick<Settings['auth'], 'issuers' | 'required'>
  readonly server: Pick<Settings['server'], 'host'>
}

/**
 * Rule 28, OTC-97 and OTC-103: nobody but this machine without credentials, and no weak ones towards others.
 * Gives what is worth a warning; throws when starting would be unsafe.
 */
export function checkExposure(settings: Exposure, allowAnonymous: boolean): readonly string[] {
  const { auth, server } = settings
  const isOpen = !needsCredential(auth)
  const weak = findWeakCredentials(auth)
  const warnings = [...(isOpen ? findUnreachableTools(settings) : []), ...findUnknownTools(settings)]
  if (isLoopback(server.host)) return [...weak, ...warnings]
  if (weak.length > 0) throw new StartRefused(weak.join('\n'))
  if (!isOpen) return warnings
  if (allowAnonymous) {
    return [
      `Anybody who can reach ${server.host} can call every tool, because anonymous callers are allowed.`,
      ...warnings,
    ]
  }
  throw new StartRefused(
    `Refusing to listen on ${server.host} without credentials: anybody who can reach it could call your tools. Configure auth.apiKeys, auth.jwt or auth.issuers, set auth.required and make keys with collet keys create (opentool start: -k KEY), listen on 127.0.0.1, or let everybody in with collet serve --allow-anonymous (\`allowAnonymous: true\` in code).`,
  )
}

/** Whether the configuration alone lets in nobody without a credential. */
export function needsCredential({ apiKeys, jwt, issuers = [], required = false }: Exposure['auth']): boolean {
  return required || apiKeys.length > 0 || jwt !== undefined || issuers.length > 0
}

/** OWP-57: an entry that names no tool opens nothing, which is hardly what was meant. */
function findUnknownTools({ auth, tools }: Exposure): readonly string[] {
  const known = new Set(tools.map(({ catalogId }) => catalogId))
  const unknown = auth.apiKeys.flatMap((entry) => (entry.tools ?? []).filter((id) => !known.has(id)))
  if (unknown.length === 0) return []
  return [`auth.apiKeys[].tools names ids that no tool has: ${[...new Set(unknown)].join(', ')}.`]
}

function findUnreachableTools(settings: Exposure): readonly string[] {
  const scoped = settings.tools.filter(({ policy }) => policy.scopes.length > 0).map(({ id }) => id)
  if (scoped.length === 0) return []
  return [
    `No credential is configured, so nobody holds the scopes that these tools ask for: ${scoped.join(', ')}.`,
  ]
}
