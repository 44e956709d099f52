import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type ExitCode,
  type OptionSpecs,
  PORTS,
  UsageError,
} from '#cli/command'
import type { StopRequester, WorkerReady, WorkerSide } from '#cli/io'
import { counted } from '#cli/output'
import { sameServer } from '#cli/server-address'
import { announce, listCostText } from '#cli/serving/banner'
import type { exampleCurl } from '#cli/serving/example-call'
import { keepWorkers } from '#cli/serving/keep-workers'
import { restartOnChange } from '#cli/serving/watch'
import { CONFIG_OPTION, loadSettings } from '#cli/store-access'
import { importAgain } from '#config/load'
import type { Settings } from '#config/settings'
import { portOf, type SettingsFlags } from '#config/to-settings'
import { cleanText, defined } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { locationOfThrown, textOfThrown } from '#kernel/base/thrown'
import { countsText } from '#sources/kit/offer-counts'
import type { SourceView } from '#sources/kit/sources'
import { DEFAULT_STORE, parseStoreUrl, STORE_FORMS, shownStoreUrl } from '#store/stores'
import { configSource } from './reload.ts'

/**
 * `collet serve` and `collet mcp`, and the serving loop that `collet dev` and `collet opentool` share. It starts the
 * server, prints its address, reloads on request and stops in order. Invariant: the first request to stop waits for
 * running calls, the second ends the process.
 */

export const SERVED_STORE_OPTION = {
  value: 'URL',
  help: `${STORE_FORMS}. Default ${DEFAULT_STORE} next to the config.`,
} as const

const mcp = defineCommand<'config' | 'store' | 'toolset'>({
  name: 'mcp',
  summary: 'Serves the tools of a config to one MCP client, on stdin and stdout.',
  details: [
    'MCP clients start it themselves. Messages go to stdout; logs, and what tools print, go to stderr.',
    'It ends when stdin closes. Once there are keys, in the config or in the store, COLLET_API_KEY identifies the caller.',
    'When a call first needs approval, it serves the approval page on a free port of 127.0.0.1; collet sign-in lets your browser decide there.',
  ],
  options: {
    config: CONFIG_OPTION,
    store: SERVED_STORE_OPTION,
    toolset: { value: 'NAME', help: 'Serve only the tools of this toolset of the config.' },
  },
  examples: [
    'collet mcp',
    'collet mcp --toolset crm',
    'collet mcp --config tools/collet.config.ts --store memory:',
  ],
  async run(args, context) {
    const { environment, services, stdin, output } = context
    // Stdout is taken before any file of the project is loaded, because its output must not reach stdout either.
    const stdout = context.takeStdout()
    const flags = defined({ store: args.text('store') })
    const settings = await loadSettings(args.text('config'), flags, context)
    const stopped = Promise.withResolvers<void>()
    const endStop = context.onStop(() => stopped.resolve())
    const endRejections = context.onStrayRejection((reason) => {
      output.warn(`A tool did not handle a rejected promise: ${String(reason)}`)
    })
    try {
      const server = await services.startStdio(settings, {
        apiKey: environment.apiKey,
        toolset: args.text('toolset'),
        write: (line) => stdout.write(`${line}\n`),
      })
      await Promise.race([server.serve(stdin), stopped.promise])
      await server.close()
    } finally {
      endStop()
      endRejections()
    }
  },
})

const MAX_WORKERS = 256
const START_TOKEN_BYTES = 32

export const OPEN_OPTION = { help: 'Open the console in a browser, signed in.' } as const

const SERVE_OPTIONS = {
  config: CONFIG_OPTION,
  host: { value: 'H', help: 'Address to listen on. Default 127.0.0.1.' },
  port: { value: 'N', help: 'Port to listen on; 0 means any free port. Default 4100.' },
  store: SERVED_STORE_OPTION,
  workers: {
    value: 'N',
    help: 'Serve with N processes that share the port; needs a store on PostgreSQL. Default 1.',
  },
  open: OPEN_OPTION,
  watch: { help: 'Restart when a file in the folder of the config, or below it, changes.' },
  'no-migrate': {
    help: 'Do not migrate the tables of the store, and refuse to start if they are old; see collet migrate.',
  },
  'allow-anonymous': {
    help: 'Serve other machines, directly or through a proxy, although there are no credentials.',
  },
} as const satisfies OptionSpecs

type ServeOption = keyof typeof SERVE_OPTIONS

const serve = defineCommand<ServeOption>({
  name: 'serve',
  summary: 'Starts the server with the tools of a config.',
  details: [
    'Ctrl-C stops it: running calls get some time to finish, then they are cancelled. A second Ctrl-C stops it at once.',
    'SIGHUP (without a terminal) and "collet reload" make it read the config again: credentials, roles, toolsets, limits, budgets, approvals, webhooks, sources and log.level change at once; other changes are listed.',
  ],
  options: SERVE_OPTIONS,
  examples: [
    'collet serve',
    'collet serve --config tools/collet.config.ts --port 8080 --watch',
    'collet serve --store memory: --port 0',
    'collet serve --store postgres://collet@db.internal/collet --workers 4',
  ],
  async run(args, context) {
    const flags = readFlags(args)
    const [config, opens] = [args.text('config'), args.flag('open')]
    if (args.flag('watch')) {
      const options = args.repeat(
        'config',
        'host',
        'port',
        'store',
        'workers',
        'allow-anonymous',
        'no-migrate',
      )
      return await restartOnChange(config, context, {
        start: (isAgain) =>
          context.startProcess(['serve', ...options, ...(opens && !isAgain ? ['--open'] : [])]),
      })
    }
    const settings = await loadSettings(config, flags, context)
    const allowAnonymous = args.flag('allow-anonymous')
    const readAgain = () => loadSettings(config, flags, context, importAgain())
    const workers = args.integer('workers', { min: 1, max: MAX_WORKERS }) ?? 1
    const { worker } = context
    if (worker !== undefined) {
      // A worker reports to its parent process, which prints the banner.
      const options = { allowAnonymous, readAgain: async () => asWorker(await readAgain(), worker), worker }
      return await serveUntilStopped(asWorker(settings, worker), options, context)
    }
    if (workers > 1) return await serveWithWorkers(settings, { count: workers, opens }, context)
    return await serveUntilStopped(settings, { allowAnonymous, readAgain, opens }, context)
  },
})

function readFlags(args: Arguments<ServeOption>): SettingsFlags {
  return defined({
    host: args.text('host'),
    port: args.integer('port', PORTS),
    store: args.text('store'),
    migrates: args.flag('no-migrate') ? false : undefined,
  })
}

/** The parent of several workers: it keeps them running and serves nothing itself. */
async function serveWithWorkers(
  settings: Settings,
  { count, opens }: { readonly count: number; readonly opens: boolean },
  context: CommandContext,
): Promise<ExitCode> {
  checkWorkers(settings)
  const { output, clock } = context
  const startToken = new Secret(randomBytes(START_TOKEN_BYTES).toString('base64url'))
  let startTokenFile: string | undefined
  let port: number | undefined
  try {
    return await keepWorkers({
      count,
      start: (index) => context.startWorker({ index, startToken, port }),
      onReady(ready) {
        startTokenFile = ready.startTokenFile
        port = portOf(new URL(ready.url))
        announce(ready, settings, context, { workers: count })
        if (opens) context.openBrowser(addressToOpen(ready))
      },
      onStop: (listener) =>
        context.onStop((by) => {
          output.note(stoppingText(by, settings))
          listener(by)
        }),
      drainMs: settings.server.drainMs ?? 0,
      onReload: context.onReload,
      note: (line) => output.note(line),
      monotonicMs: () => clock.monotonicMs(),
    })
  } finally {
    if (startTokenFile !== undefined) await rm(startTokenFile, { force: true })
  }
}

function checkWorkers({ store, server }: Settings): void {
  if (parseStoreUrl(store).kind !== 'server')
    throw new UsageError(
      `--workers needs a store on PostgreSQL, and this one is ${shownStoreUrl(store)}. A SQLite database has one writer, so further processes would wait for the first; a store in memory cannot be shared at all. Use --store postgres://…, or leave --workers out.`,
    )
  if (server.internal?.url !== undefined)
    throw new UsageError(
      'server.internal.url names one listener, and each worker has its own. Leave it out with --workers; host and port may stay.',
    )
}

/** A worker shares the port of the first one, and has its own listener for other replicas. */
function asWorker(settings: Settings, { port, index }: WorkerSide): Settings {
  const { internal } = settings.server
  const own =
    internal === undefined || internal.port === 0
      ? {}
      : { internal: { ...internal, port: internal.port + index - 1 } }
  return { ...settings, server: { ...settings.server, port: port ?? settings.server.port, ...own } }
}

interface ServeOptions {
  readonly allowAnonymous: boolean
  /** Reads the settings of the config again. */
  readonly readAgain?: () => Promise<Settings>
  /** Lets callers with a key stop the server over OpenTool (OTS-53). */
  readonly allowStop?: boolean
  /** Set in a worker process. */
  readonly worker?: WorkerSide
  /** Makes the example call. Default: a call over OTC. */
  readonly example?: typeof exampleCurl
  /** Opens the console in a browser once the server listens. */
  readonly opens?: boolean
  /** Set by `collet dev`: the author of the tools is at the terminal. */
  readonly developing?: {
    /** Paths are shown relative to this folder. */
    readonly folder: string
    /** Secrets from `.env`, for the author's own calls. */
    readonly secrets: ReadonlyMap<string, Secret>
    /** Called once the server listens; `true` if the banner is not needed. */
    onReady(url: string): Promise<boolean>
  }
}

export async function serveUntilStopped(
  settings: Settings,
  options: ServeOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { output, services } = context
  const { allowAnonymous, example } = options
  const stop = listenForStop(context)
  // An unhandled rejection in one tool must not end the calls of the others.
  const endRejections = context.onStrayRejection((reason) => {
    output.warn(`A tool did not handle a rejected promise${placeText(reason)}: ${traceOf(reason)}`)
  })
  // After an uncaught exception the process cannot be trusted: stop it, but in order.
  let isBroken = false
  const endExceptions = context.onUncaughtException((error) => {
    output.error(
      `Uncaught exception${placeText(error)}, outside of every call: in a timer, an event handler or a callback. The server stops.`,
    )
    output.note(traceOf(error))
    isBroken = true
    stop.request()
  })
  let endReload = () => {}
  try {
    const protocols = options.allowStop === true ? { opentool: { stop: stop.request } } : {}
    const { worker, readAgain, developing } = options
    const starting = services.startServer(settings, {
      allowAnonymous,
      protocols,
      ...defined({
        worker,
        config: readAgain && configSource(readAgain, context),
        developing: developing && { folder: developing.folder, secrets: developing.secrets },
      }),
    })
    const server = await (worker === undefined ? output.during('Starting', starting) : starting)
    const { url, startTokenFile, consoleUrl, signInUrl, isKeyed, warnings } = server
    const counts = server.counts()
    const ready = { url, startTokenFile, consoleUrl, signInUrl, isKeyed, warnings, ...counts }
    // The outcome is logged before this promise settles.
    if (readAgain !== undefined)
      endReload = context.onReload(() => void server.readAgain().catch(() => undefined))
    if (worker !== undefined) worker.reportReady(ready)
    else {
      const isAnnounced = (await developing?.onReady(url)) === true
      if (!isAnnounced) announce(ready, settings, context, { example })
      else for (const warning of warnings) output.warn(warning)
      if (!isAnnounced && developing !== undefined && isKeyed) output.warn(KEYED_WHILE_DEVELOPING)
      if (options.opens === true) context.openBrowser(addressToOpen(ready))
      server.onSourceAdded((view) => reportSource(view, output))
      const reading = ready.starting.map(async (key) => reportSource(await server.sourceRead(key), output))
      void Promise.all(reading).then(() => reportListCost(ready, server.counts(), output))
    }
    const by = await stop.requested
    if (worker === undefined && developing === undefined) output.note(stoppingText(by, settings))
    if (by === 'supervisor') await server.announceStop()
    await server.close()
    return isBroken ? EXIT.server : EXIT.ok
  } catch (error) {
    if (!isListenFailure(error)) throw error
    const running = await sameServer(settings, services)
    const message =
      running === undefined
        ? error.message
        : `Collet already serves this project on ${running} (data in ${settings.dataFolder}). Nothing to do; stop it first to start another.`
    throw new CommandFailure(EXIT.server, message, { cause: error })
  } finally {
    stop.end()
    endReload()
    endRejections()
    endExceptions()
  }
}

const KEYED_WHILE_DEVELOPING =
  'Every caller needs a key here, including callers on this machine: set COLLET_API_KEY for commands and clients. To develop without keys, use another store: collet dev --store memory:'

const LISTEN_CODES = /^(EADDRINUSE|EACCES|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN)$/

/** The server explains why it cannot listen; the system's error is the cause. */
function isListenFailure(error: unknown): error is Error {
  if (!(error instanceof Error) || !(error.cause instanceof Error)) return false
  return 'code' in error.cause && LISTEN_CODES.test(String(error.cause.code))
}

function traceOf(thrown: unknown): string {
  return (thrown instanceof Error ? thrown.stack : undefined) ?? textOfThrown(thrown)
}

function placeText(thrown: unknown): string {
  const place = locationOfThrown(thrown)
  return place === undefined ? '' : ` at ${place}`
}

function stoppingText(by: StopRequester, { server: { drainMs = 0 } }: Settings): string {
  return drainMs === 0 || by === 'person'
    ? 'Stopping: running calls may finish. Press Ctrl-C again to stop at once.'
    : `Stopping: /health returns 503 from now on. New calls are accepted for ${drainMs / 1_000} s more, then running calls may finish.`
}

function addressToOpen({ url, consoleUrl, signInUrl }: WorkerReady): string {
  return signInUrl ?? consoleUrl ?? url
}

type ListedCounts = Pick<WorkerReady, 'tools' | 'listTokens'>

/** The banner cannot count the tools of sources that are still starting. */
function reportListCost(announced: ListedCounts, now: ListedCounts, output: CommandContext['output']): void {
  if (announced.listTokens === undefined && now.listTokens !== undefined)
    output.note(`${counted(now.tools, 'tool')}: ${listCostText(now.listTokens)}`)
}

/** One line for a source that started after the banner, or was added later. */
function reportSource(view: SourceView | undefined, output: CommandContext['output']): void {
  if (view === undefined) return
  const { key, readAtMs, reason } = view
  if (readAtMs !== undefined) output.done(`${key}: ${countsText(view)}`)
  else
    output.warn(
      `${key} cannot be read${reason === undefined ? '' : `: ${cleanText(reason)}`}. The server tries again; "collet sources check ${key}" shows the cause.`,
    )
}

/** The first stop request resolves `requested`, the second ends the process. `request` stops from within the process. */
function listenForStop({ onStop, exit }: CommandContext) {
  const { promise, resolve } = Promise.withResolvers<StopRequester>()
  let isRequested = false
  const end = onStop((by) => {
    if (isRequested) exit(EXIT.server)
    isRequested = true
    resolve(by)
  })
  return { requested: promise, request: () => resolve('person'), end }
}

export const COMMANDS = [serve, mcp]
