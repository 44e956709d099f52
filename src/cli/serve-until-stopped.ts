import type { Settings } from '#config/settings'
import type { RunningServer } from '#server/start-server'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { exampleCurl } from './example-call.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'

export interface ServeOptions {
  readonly allowAnonymous: boolean
  readonly testSeams?: boolean
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
  const { allowAnonymous, testSeams = false, example = exampleCurl } = options
  const stop = listenForStop(context)
  // A tool that loses sight of a promise must not take everybody else's calls down with it.
  const endRejections = context.onStrayRejection((reason) => {
    output.warn(`A tool left a failed promise behind: ${traceOf(reason)}`)
  })
  // After an exception out of nowhere nothing in this process can be trusted for long: end it, but in order.
  let isBroken = false
  const endExceptions = context.onUncaughtException((error) => {
    output.error(`Nobody caught an exception: ${traceOf(error)}`)
    isBroken = true
    stop.request()
  })
  try {
    const opentool = options.allowStop === true ? { stop: stop.request } : {}
    const starting = services.startServer(settings, { allowAnonymous, testSeams, opentool })
    const server = await output.during('Starting', starting)
    for (const warning of server.warnings) output.warn(warning)
    if (testSeams) output.warn('Test seams are on: never on a server that others use.')
    announce(server, settings, { ...context, curl: example(server.url, settings) })
    await stop.requested
    output.note('Stopping: running calls may finish. Ask again to stop at once.')
    await server.close()
    return isBroken ? EXIT.server : EXIT.ok
  } catch (error) {
    throw isListenFailure(error) ? new CommandFailure(EXIT.server, error.message, { cause: error }) : error
  } finally {
    stop.end()
    endRejections()
    endExceptions()
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

function traceOf(thrown: unknown): string {
  return (thrown instanceof Error ? thrown.stack : undefined) ?? String(thrown)
}

interface StopWatch {
  readonly requested: Promise<void>
  /** Ends the wait from inside. */
  request(): void
  end(): void
}

/** The first request ends the wait, the second one ends the process. */
function listenForStop({ onStop, exit }: CommandContext): StopWatch {
  const { promise, resolve } = Promise.withResolvers<void>()
  let asked = false
  const end = onStop(() => {
    if (asked) exit(EXIT.server)
    asked = true
    resolve()
  })
  return { requested: promise, request: resolve, end }
}

const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

function announce(
  { url, startTokenFile, counts }: Pick<RunningServer, 'url' | 'startTokenFile' | 'counts'>,
  settings: Settings,
  { output, json, curl }: CommandContext & { readonly curl: string | undefined },
): void {
  const { tools, sources } = counts()
  if (json) {
    output.json({ url, store: settings.store, tools, sources, startTokenFile, curl })
    return
  }
  const origin = sources === 0 ? '' : ` (${counted(sources, 'source')})`
  const count = `${counted(tools, 'tool')}${origin}`
  output.data(`${output.style('bold', 'Collet')} serves ${count} on ${output.style('cyan', url)}`)
  output.data('')
  const { host } = settings.server
  if (ALL_ADDRESSES.has(host)) output.data(`  Listens on   all addresses of this machine (${host})`)
  if (curl !== undefined) output.data(`  Try it       ${curl}`)
  output.data(`  Data         ${whereDataLives(settings)}`)
  output.data(`  Start token  ${startTokenFile} (for settling calls and other decisions)`)
  output.data('')
}

function counted(count: number, what: string): string {
  return count === 1 ? `1 ${what}` : `${count} ${what}s`
}

function whereDataLives({ store }: Settings): string {
  return store === 'memory:' ? 'in memory: gone when the server stops' : store.slice('sqlite:'.length)
}
