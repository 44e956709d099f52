import { revalidatingFetch } from '#client/http'
import { type ClientOptions, type ClientSettings, readOptions } from '#client/options'
import { fault } from '#kernel/base/errors'
import { defined, type JsonValue } from '#kernel/base/json'
import { MAX_TIMER_MS } from '#kernel/tool/tool'
import type { Discovery, Invocation, Source, SourceHealth, SourceServices } from '#sources/kit/source'
import { readAnswer } from './answered-json.ts'
import { type CommonOptions, isWanted, remotePolicyOf, type ServerCredentials } from './options.ts'

/**
 * A source that is a remote tool server, and the client for it. The OTC and OpenTool sources use it.
 * Invariant: the server's answers determine the health of the source.
 */

/** The settings of the client for calls. */
export function callSettings(
  { url, apiKey, token }: ServerCredentials,
  services: SourceServices,
  client: Pick<ClientOptions, 'protocol' | 'dialect' | 'signal'>,
): ClientSettings {
  return {
    ...readOptions(url, {
      ...client,
      apiKey: apiKey?.reveal(),
      jwt: token?.reveal(),
      fetch: (address, init) => services.fetch(address, init),
      now: () => services.clock.nowMs(),
      // The client needs no limit, because the call has its own time limit.
      timeoutMs: MAX_TIMER_MS,
    }),
    readJson: readAnswer,
  }
}

/** The `fetch` for tool descriptions. It caches answers, so that an unchanged description is not sent again. */
export function descriptionFetch(services: SourceServices): ClientSettings['fetch'] {
  return revalidatingFetch((address, init) => (services.fetchDescription ?? services.fetch)(address, init))
}

interface RemoteServer {
  discover(signal: AbortSignal): Promise<Discovery>
  invoke(invocation: Invocation): Promise<JsonValue | undefined>
  /** True if a call failed because of the server and not because of its input. */
  isOutage(error: unknown): boolean
  /** See `Source.keptId`. */
  readonly keptId?: NonNullable<Source['keptId']>
  readonly closing: AbortController
}

export function remoteSource(
  { key, type }: Pick<Source, 'key' | 'type'>,
  options: Pick<CommonOptions, 'policy' | 'tools' | 'include' | 'exclude' | 'vendor'>,
  server: RemoteServer,
): Source {
  const { closing } = server
  let health: SourceHealth = { state: 'starting', reason: 'Its tools have not been read yet.' }
  return {
    key,
    type,
    kind: 'connector',
    async discover(signal) {
      try {
        const discovery = await server.discover(signal)
        health = READY
        return discovery
      } catch (error) {
        if (!signal.aborted) health = { state: 'down', reason: reasonOf(error) }
        throw error
      }
    },
    async invoke(invocation) {
      closing.signal.throwIfAborted()
      try {
        const value = await server.invoke(invocation)
        health = READY
        return value
      } catch (error) {
        // The next discovery decides whether the server is down.
        if (server.isOutage(error)) health = { state: 'degraded', reason: reasonOf(error) }
        throw error
      }
    },
    ...defined({ vendor: options.vendor, keptId: server.keptId }),
    policyFor: ({ nativeName }) => remotePolicyOf(nativeName, options),
    wants: ({ nativeName }) => isWanted(nativeName, options),
    health: () => health,
    async close() {
      closing.abort(fault('cancelled', 'The server is shutting down.'))
    },
  }
}

const READY: SourceHealth = { state: 'ready' }

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'The server cannot be reached.'
}

/**
 * Refuses the call if the operator accepted the tool for an address other than the configured one, because this server's
 * credentials belong to the configured address (rule 32).
 */
export function checkAddress(nativeName: string, accepted: string, configured: string): void {
  if (accepted === configured) return
  throw fault('upstream_failed', `${nativeName} was accepted for another address; ask the operator.`, {
    canRetry: true,
    developerMessage: `Accepted for ${accepted}, but configured for ${configured}: accept the change first.`,
  })
}
