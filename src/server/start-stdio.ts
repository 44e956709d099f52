/**
 * Starts MCP on a pair of streams (`collet mcp`): services without a listener, one caller, and approval pages on this machine once
 * a call waits for a decision.
 */

import { type Authenticator, createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { plannedUrl } from '#config/to-settings'
import type { Listener } from '#egress/policy'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { isToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { LiveRegistry } from '#kernel/tool/catalog'
import { mcpServices } from '#protocols/mcp/exchange'
import { StdioServer } from '#protocols/mcp/stdio'
import { parseJsonBody } from '#server/http/read-body'
import { createLog, type ServerLog } from '#server/telemetry/log'
import { observeCalls } from '#server/telemetry/metrics'
import { openTelemetry } from '#server/telemetry/telemetry'
import type { LocalPages, LocalPagesOptions } from './approvals/local-pages.ts'
import { openParts, type ServerPart } from './part.ts'
import { StartRefused } from './safety.ts'
import { openServices, type Services } from './services.ts'
import { enterToolset } from './toolsets.ts'
import { VERSION } from './version.ts'

/** Clients that close stdin wait about two seconds before they kill the process (MCP-98). */
const GRACE_MS = 1_500

export interface StdioStart {
  /** The credential of all calls; taken from the environment (MCP-98). */
  readonly apiKey: Secret | undefined
  /** Serve only the tools of this toolset. */
  readonly toolset?: string | undefined
  /** Writes one message without its line end. */
  write(line: string): void
  readonly log?: ServerLog
  readonly graceMs?: number
}

export interface StdioServing {
  /** Resolves when the other side closes the stream. */
  serve(chunks: AsyncIterable<string | Uint8Array>): Promise<void>
  /** Gives running calls the grace time, answers them, closes everything. */
  close(): Promise<void>
}

/** Opens the same tools, store and journal as `serve`, for the process that started this one. */
export async function startStdio(settings: Settings, options: StdioStart): Promise<StdioServing> {
  return await openParts(async (parts) => {
    const clock = SYSTEM_CLOCK
    const log = options.log ?? createLog(settings.logLevel, undefined, settings.logStyle)
    const graceMs = options.graceMs ?? GRACE_MS
    const ownListeners: Listener[] = []
    const telemetry = parts.add(await openTelemetry(settings, { clock, log }))
    const services: Services = parts.add(
      await openServices(settings, {
        clock,
        log,
        ownListeners,
        telemetry: telemetry.operations,
        // Consent pages are those of `collet serve` on the same store, whose address the providers know.
        publicUrl: () => plannedUrl(settings.server),
        approvalsUrl: () => pages.url(),
      }),
    )
    const { gateway, fetch: configuredFetch, noteDenial, rejections } = services
    const { store } = gateway
    telemetry.attach(store)
    const authenticator = parts.add(
      // The server is private, because its caller is the program that started this process.
      createAuthenticator(settings.auth, clock, { store, fetch: configuredFetch, log, isPrivate: true }),
    )
    const pages = parts.add(
      createLocalPages({ settings, gateway, store, authenticator, clock, log }, ownListeners),
    )
    const principal = callerOf(services.registry, authenticator, options)
    await checkCaller(authenticator, principal)
    const server = new StdioServer(
      mcpServices(
        {
          ...settings.mcp,
          modelBytes: settings.results?.modelBytes,
          resultsMs: settings.calls.retentionHours * 3_600_000,
        },
        {
          ...{
            store,
            clock,
            log,
            search: services.search,
            serverVersion: VERSION,
            operations: telemetry.operations,
          },
          gateway: services.search.watch(observeCalls(gateway, { clock, store, noteDenial, rejections })),
        },
      ),
      {
        ...{ principal, parse: parseJsonBody, write: options.write },
        maxLineBytes: settings.server.bodyLimitBytes,
      },
    )
    return {
      serve: (chunks) => server.serve(chunks),
      async close() {
        const drained = gateway.drain(graceMs)
        await server.close()
        await drained
        await parts.close()
      },
    }
  })
}

type FindCaller = () => MaybePromise<Principal>

function callerOf(
  registry: LiveRegistry,
  authenticator: Authenticator,
  { apiKey, toolset }: StdioStart,
): FindCaller {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey.reveal()}` }
  const authenticate = () => authenticator.authenticate(headers)
  if (toolset === undefined) return authenticate
  return async () => enterToolset(registry, await authenticate(), toolset)
}

/** Refuses the start if the credential or the toolset is not valid. */
async function checkCaller(authenticator: Authenticator, principal: FindCaller): Promise<void> {
  try {
    await authenticator.refresh()
    await principal()
  } catch (error) {
    if (!isToolError(error)) throw error
    const advice = error.code === 'unauthenticated' ? ' Set COLLET_API_KEY to a key of this server.' : ''
    throw new StartRefused(`${error.message}${advice}`)
  }
}

/** The approval pages, opened when a call first waits; with most clients no call ever waits. */
function createLocalPages(
  options: LocalPagesOptions,
  ownListeners: Listener[],
): ServerPart & { url(): Promise<string> } {
  let pages: Promise<LocalPages | undefined> | undefined
  const open = async (): Promise<LocalPages | undefined> => {
    try {
      const { openLocalPages } = await import('./approvals/local-pages.ts')
      const opened = await openLocalPages(options)
      ownListeners.push(opened.listener)
      return opened
    } catch (err) {
      options.log.warn({ err }, 'the approval pages cannot be served here; decide with collet approvals')
      return undefined
    }
  }
  return {
    async url() {
      pages ??= open()
      return (await pages)?.url ?? plannedUrl(options.settings.server)
    },
    close: async () => await (await pages)?.close(),
  }
}
