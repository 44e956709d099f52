import { isLoopbackHost } from '#config/loopback'
import type { Settings } from '#config/settings'

export interface Exposure {
  /** Reasons not to start. */
  readonly errors: readonly string[]
  readonly warnings: readonly string[]
}

/** Whether these settings may listen where they say (rule 28, OTC-97, OTC-103). */
export function checkExposure(
  { server, auth }: Pick<Settings, 'server' | 'auth'>,
  options: { readonly allowAnonymous: boolean; readonly weakCredentials: readonly string[] },
): Exposure {
  const { allowAnonymous, weakCredentials } = options
  const loopback = isLoopbackHost(server.host)
  const anonymous = auth.apiKeys.length === 0 && auth.jwt === undefined
  if (loopback) return { errors: [], warnings: weakCredentials }
  if (!anonymous) return { errors: weakCredentials, warnings: [] }
  const open = `Anyone who can reach ${server.host} can call every tool: there is no auth in the config.`
  if (allowAnonymous) return { errors: [], warnings: [open] }
  return {
    errors: [`${open} Add auth.apiKeys or auth.jwt, listen on 127.0.0.1, or say --allow-anonymous.`],
    warnings: [],
  }
}
