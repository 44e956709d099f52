import { fault } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import type { Discovery, Invocation, Source, SourceHealth } from '#sources/kit/source'
import { type CommonOptions, isWanted, remotePolicyOf } from './options.ts'

/**
 * A source that is a remote tool server, called over OTC or OpenTool. Its health follows from the server's answers.
 */

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
  const health = new ServerHealth()
  const { closing } = server
  return {
    key,
    type,
    kind: 'connector',
    async discover(signal) {
      try {
        const discovery = await server.discover(signal)
        health.ready()
        return discovery
      } catch (error) {
        if (!signal.aborted) health.down(error)
        throw error
      }
    },
    async invoke(invocation) {
      closing.signal.throwIfAborted()
      try {
        const value = await server.invoke(invocation)
        health.ready()
        return value
      } catch (error) {
        if (server.isOutage(error)) health.degraded(error)
        throw error
      }
    },
    ...(options.vendor === undefined ? {} : { vendor: options.vendor }),
    ...(server.keptId === undefined ? {} : { keptId: server.keptId }),
    policyFor: ({ nativeName }) => remotePolicyOf(nativeName, options),
    wants: ({ nativeName }) => isWanted(nativeName, options),
    health: () => health.now,
    async close() {
      closing.abort(fault('cancelled', 'The server is shutting down.'))
    },
  }
}

class ServerHealth {
  #now: SourceHealth = { state: 'starting', reason: 'Its tools have not been read yet.' }

  get now(): SourceHealth {
    return this.#now
  }

  ready(): void {
    this.#now = { state: 'ready' }
  }

  down(error: unknown): void {
    this.#now = { state: 'down', reason: reasonOf(error) }
  }

  /** A call could not reach the server; the next discovery decides whether it is down. */
  degraded(error: unknown): void {
    this.#now = { state: 'degraded', reason: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'The server cannot be reached.'
}

/**
 * Refuses the call if the operator accepted the tool for another address than the configured one, for which our
 * credentials are (rule 32).
 */
export function checkAddress(nativeName: string, accepted: string, configured: string): void {
  if (accepted === configured) return
  throw fault('upstream_failed', `${nativeName} was accepted for another address; ask the operator.`, {
    canRetry: true,
    developerMessage: `Accepted for ${accepted}, configured is ${configured}: accept the change first.`,
  })
}
