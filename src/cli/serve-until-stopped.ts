import type { Settings } from '#config/settings'
import type { OpenToolServing } from '#server/opentool-routes'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { exampleCurl } from './example-call.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'

export interface ServeOptions {
  readonly allowAnonymous: boolean
  readonly opentool?: OpenToolServing
  /** Lets callers with a key stop the server over OpenTool (OTS-53). */
  readonly allowStop?: boolean
  /** A call to try; OTC's unless told. */
  readonly example?: typeof exampleCurl
}

/** Starts the server, says where it is, and stays until somebody asks it to stop. */
export async function serveUntilStopped(
  settings: Settings,
  options: ServeOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { output, services } = context
  const { allowAnonymous, opentool, example = exampleCurl } = options
  const stop = listenForStop(context)
  try {
    const serving = { ...opentool, ...(options.allowStop === true ? { stop: stop.request } : {}) }
    const starting = services.startServer(settings, { allowAnonymous, opentool: serving })
    const server = await output.during('Starting', starting)
    for (const warning of server.warnings) output.warn(warning)
    announce(server, settings, { ...context, curl: example(server.url, settings) })
    await stop.requested
    output.note('Stopping: running calls may finish. Ask again to stop at once.')
    await server.close()
    return EXIT.ok
  } catch (error) {
    throw isListenFailure(error) ? new CommandFailure(EXIT.server, error.message, { cause: error }) : error
  } finally {
    stop.end()
  }
}

const LISTEN_CODES: ReadonlySet<unknown> = new Set([
  'EADDRINUSE',
  'EACCES',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/** The server says in words why it cannot listen, and keeps the system's error as the cause. */
function isListenFailure(error: unknown): error is Error {
  if (!(error instanceof Error) || !(error.cause instanceof Error)) return false
  return 'code' in error.cause && LISTEN_CODES.has(error.cause.code)
}

interface Stop {
  readonly requested: Promise<void>
  request(): void
  end(): void
}

/** The first request ends the wait, the second one ends the process. */
function listenForStop({ onStop, exit }: CommandContext): Stop {
  const { promise, resolve } = Promise.withResolvers<void>()
  let asked = false
  const end = onStop(() => {
    if (asked) exit(EXIT.server)
    asked = true
    resolve()
  })
  return { requested: promise, request: resolve, end }
}

function announce(
  { url, startTokenFile }: { readonly url: string; readonly startTokenFile: string },
  settings: Settings,
  { output, json, curl }: CommandContext & { readonly curl: string | undefined },
): void {
  if (json) {
    output.json({ url, store: settings.store, tools: settings.tools.length, startTokenFile, curl })
    return
  }
  const count = settings.tools.length === 1 ? '1 tool' : `${settings.tools.length} tools`
  output.data(`${output.style('bold', 'Collet')} serves ${count} on ${output.style('cyan', url)}`)
  output.data('')
  if (curl !== undefined) output.data(`  Try it       ${curl}`)
  output.data(`  Data         ${whereDataLives(settings)}`)
  output.data(`  Start token  ${startTokenFile} (for settling calls and other decisions)`)
  output.data('')
}

function whereDataLives({ store }: Settings): string {
  return store === 'memory:' ? 'in memory: gone when the server stops' : store.slice('sqlite:'.length)
}
