import { createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { plannedUrl } from '#config/to-settings'
import type { Listener } from '#egress/policy'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import { mcpServices } from '#protocols/mcp/exchange'
import { StdioServer } from '#protocols/mcp/stdio'
import { parseJsonBody } from '#server/http/read-body'
import { createDenialLog } from '#server/telemetry/denials'
import { createLog, type ServerLog } from '#server/telemetry/log'
import { observeCalls } from '#server/telemetry/metrics'
import type { LocalPages } from './approvals/local-pages.ts'
import { StartRefused } from './safety.ts'
import { openServices } from './services.ts'
import { enterToolset } from './toolsets.ts'
import { VERSION } from './version.ts'

/** Clients that close our stdin wait about two seconds before they kill us (MCP-98). */
const GRACE_MS = 1_500

export interface StdioStart {
  /** Whose calls these are, once any credential is configured; taken from the environment (MCP-98). */
  readonly apiKey: Secret | undefined
  /** Serve only the tools of this toolset. */
  readonly toolset?: string | undefined
  /** One message, without its line end. */
  write(line: string): void
  readonly log?: ServerLog
  readonly graceMs?: number
}

export interface StdioServing {
  /** Resolves when the other side closes the stream. */
  serve(chunks: AsyncIterable<string | Uint8Array>): Promise<void>
  /** Lets what is under way finish for a moment, answers it, closes everything. */
  close(): Promise<void>
}

/** The same tools, store and journal as `serve`, for the one process that started us. */
export async function startStdio(settings: Settings, options: StdioStart): Promise<StdioServing> {
  const clock = SYSTEM_CLOCK
  const log = options.log ?? createLog(settings.logLevel, undefined, settings.logStyle)
  const graceMs = options.graceMs ?? GRACE_MS
  let pages: Promise<LocalPages | undefined> | undefined
  const listeners: Listener[] = []
  const openPages = async (): Promise<LocalPages | undefined> => {
    try {
      // Loaded with the first call that waits: most clients never make one.
      const { openLocalPages } = await import('./approvals/local-pages.ts')
      const opened = await openLocalPages({ settings, gateway, store, authenticator, clock, log })
      listeners.push(opened.listener)
      return opened
    } catch (err) {
      log.warn({ err }, 'the pages of approvals cannot be served here; collet approvals decides')
      return undefined
    }
  }
  const services = await openServices(settings, {
    clock,
    log,
    // Pages for consent have an address that providers know: that of `collet serve` on the same store.
    publicUrl: () => plannedUrl(settings.server),
    async approvalsUrl() {
      pages ??= openPages()
      return (await pages)?.url ?? plannedUrl(settings.server)
    },
    ownListeners: () => listeners,
    onCommit: () => undefined,
  })
  const { gateway } = services
  const { store } = gateway
  const authenticator = createAuthenticator(settings.auth, clock, {
    ...{ store, fetch: services.fetch, log },
    // The caller is the program that started this process.
    isPrivate: true,
  })
  const denials = createDenialLog({ store, clock, log })
  const authenticate = (): MaybePromise<Principal> =>
    authenticator.authenticate(
      options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey.reveal()}` },
    )
  const { toolset } = options
  const principal =
    toolset === undefined
      ? authenticate
      : async () => enterToolset(services.registry, await authenticate(), toolset)
  const close = async (): Promise<void> => {
    await gateway.drain(graceMs)
    await (await pages)?.close()
    await denials.close()
    await authenticator.close()
    await services.close(0)
  }
  try {
    await authenticator.refresh()
    await principal()
  } catch (error) {
    await close()
    if (!isToolError(error)) throw error
    const advice = error.code === 'unauthenticated' ? ' Set COLLET_API_KEY to a key of this server.' : ''
    throw new StartRefused(`${error.message}${advice}`)
  }
  const server = new StdioServer(
    mcpServices(settings.mcp, {
      ...{ store, clock, log },
      gateway: observeCalls(gateway, {
        ...{ clock, store, noteDenial: denials.note, rejections: services.rejections },
      }),
      serverVersion: VERSION,
    }),
    {
      principal,
      parse: parseJsonBody,
      maxLineBytes: settings.server.bodyLimitBytes,
      write: options.write,
    },
  )
  return {
    serve: (chunks) => server.serve(chunks),
    async close() {
      const drained = gateway.drain(graceMs)
      await server.close()
      await drained
      await close()
    },
  }
}
