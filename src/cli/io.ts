import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import type { ClientOptions, ColletClient } from '#client/index'
import type { Environment } from '#config/environment'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Secret } from '#kernel/base/secret'
import type { JournalHead } from '#kernel/journal/events'
import type { RunningServer, ServedCounts, StartOptions, WorkerShare } from '#server/running-server'
import type { StdioServing, StdioStart } from '#server/start-stdio'
import type { Store } from '#store/collet-store'
import type { copyStore, migrateStore } from '#store/stores'
import type { JournalVerification } from '#store/verify'
import type { TextStream } from './output.ts'

/**
 * Everything a command may touch outside of itself: streams, environment, clock, signals, processes, and the services
 * of this package. `main.ts` passes the real ones, tests pass fakes. Invariant: services are imported on first use,
 * so that `collet --help` stays fast.
 */

export interface StoreAccess {
  /** The store's URL, with an absolute path. */
  readonly url: string
  readonly dataFolder: string
  readonly masterKey: Uint8Array | undefined
  /** The previous key, while `collet store rekey` changes it. */
  readonly oldMasterKey?: Uint8Array | undefined
}

export interface Services {
  startServer(
    settings: Settings,
    options: StartOptions,
  ): Promise<
    Pick<
      RunningServer,
      | 'url'
      | 'startTokenFile'
      | 'consoleUrl'
      | 'signInUrl'
      | 'announceStop'
      | 'isKeyed'
      | 'warnings'
      | 'counts'
      | 'sourceRead'
      | 'onSourceAdded'
      | 'readAgain'
      | 'close'
    >
  >
  /** Serves MCP on a pair of streams, without listening on a port. */
  startStdio(settings: Settings, options: StdioStart): Promise<StdioServing>
  /** Opens a store for operators: it never recovers calls and never creates a key (rule 17). */
  openStore(access: StoreAccess): Promise<Store>
  /** Creates a store that does not exist yet, with its key file, as the first start of a server does. */
  createStore(access: StoreAccess): Promise<void>
  /** Rejects if a server could not read or write this store; writes nothing, not even to the journal. */
  checkWritable(access: StoreAccess): Promise<void>
  /** Migrates the tables of a store, or (`look`) returns what would be done. */
  migrate(access: StoreAccess, mode: 'migrate' | 'inspect'): ReturnType<typeof migrateStore>
  /** Copies a whole store into an empty database, or continues an interrupted copy. */
  copyStore: typeof copyStore
  /** Copies the database to a new file; the store may be in use. */
  backUp(access: StoreAccess, file: string): Promise<void>
  verifyJournal(access: StoreAccess, kept: readonly JournalHead[]): Promise<JournalVerification>
  connect(
    url: string,
    options: ClientOptions,
  ): Promise<Pick<ColletClient, 'list' | 'search' | 'get' | 'tryCall'>>
  /** Returns a function that builds the checkout; `undefined` if its build is current. */
  packageBuild(root: string): Promise<(() => Promise<void>) | undefined>
  readonly fetch: typeof fetch
  /**
   * `fetch` for a server whose certificate is known: only that certificate is accepted, whatever name it contains.
   */
  fetchKnown(certificate: string): typeof fetch
}

/** A server in a child process, for `serve --watch`. */
export interface ServerProcess {
  /** Resolves with the exit code; never rejects. */
  readonly ended: Promise<number>
  stop(): void
  kill(): void
}

/**
 * Who asks a command to stop. A supervisor sends SIGTERM and may need time for its load balancer; a person presses
 * Ctrl-C or closes the terminal.
 */
export type StopRequester = 'supervisor' | 'person'

/** What a worker reports once it serves. */
export interface WorkerReady
  extends Pick<RunningServer, 'url' | 'startTokenFile' | 'consoleUrl' | 'signInUrl' | 'isKeyed' | 'warnings'>,
    ServedCounts {}

export interface WorkerStart {
  /** The worker's number, counted from 1. */
  readonly index: number
  readonly startToken: Secret
  /** The port of the other workers; absent for the first. */
  readonly port?: number | undefined
}

/** One of several processes that form one server, for `serve --workers`. */
export interface WorkerProcess extends ServerProcess {
  /** Resolves with `undefined` if the process ends before it serves. */
  readonly ready: Promise<WorkerReady | undefined>
  stop(by?: StopRequester): void
  reload(): void
}

/** A worker's connection to the process that started it. */
export interface WorkerSide extends WorkerShare {
  /** The worker's number, counted from 1. */
  readonly index: number
  /** The port of the other workers; absent for the first. */
  readonly port: number | undefined
  /** Resolves on a request to stop, and when the parent process has ended. */
  readonly stopped: Promise<StopRequester>
  reportReady(ready: WorkerReady): void
}

/** Calls back at each event; returns a function that ends the subscription. */
type Subscribe<Event> = (listener: (event: Event) => void) => () => void

export interface CliIo {
  readonly stdin: AsyncIterable<string | Uint8Array> & {
    readonly isTTY?: boolean | undefined
    /** On a terminal: input arrives key by key and is not echoed. */
    setRawMode?(on: boolean): unknown
  }
  readonly stdout: TextStream
  readonly stderr: TextStream
  /** Reserves stdout for the command; what tools print then goes to stderr. */
  takeStdout(): TextStream
  readonly environment: Environment
  readonly workingFolder: string
  /** The words with which another program starts this one from any folder. */
  readonly program: readonly string[]
  /** What a person types in this folder to run this program: `./collet`, `npx collet`. */
  readonly command: string
  /** The user at the terminal, for the journal. */
  readonly userName: string
  readonly clock: Clock
  readonly services: Services
  readonly onStop: Subscribe<StopRequester>
  /** Requests to reload the config: SIGHUP without a terminal. */
  readonly onReload: Subscribe<void>
  /** Unhandled rejections, which then do not end the process. */
  readonly onStrayRejection: Subscribe<unknown>
  /** Uncaught exceptions, which then do not end the process. */
  readonly onUncaughtException: Subscribe<unknown>
  exit(code: number): void
  /** Opens an address in the user's browser, if there is one. */
  openBrowser(url: string): void
  /** Starts `collet` again in a child process with these arguments. */
  startProcess(args: readonly string[]): ServerProcess
  /** Starts `collet` again with the current arguments, on the same port. */
  startWorker(start: WorkerStart): WorkerProcess
  readonly worker?: WorkerSide | undefined
}

/** The engine of Node 24: others print an error for a flag that they do not have. */
const TESTED_ENGINE = '13.6.'
const OPTIMIZE_SOONER = [
  '--invocation-count-for-maglev=50',
  '--invocation-count-for-turbofan=200',
  '--minimum-invocations-after-ic-update=50',
]

/**
 * By default V8 optimises a function fully after 3 000 calls, which a gateway that serves one agent may not reach in a day.
 * This changes the whole process, so it is not done where the gateway is embedded in another program.
 */
export function optimizeSooner(): void {
  if (process.versions.v8.startsWith(TESTED_ENGINE))
    for (const flag of OPTIMIZE_SOONER) setFlagsFromString(flag)
}

export const REAL_SERVICES: Services = {
  async startServer(...start) {
    optimizeSooner()
    return await (await import('#server/start-server')).startServer(...start)
  },
  async startStdio(...start) {
    optimizeSooner()
    return await (await import('#server/start-stdio')).startStdio(...start)
  },
  openStore: async ({ url, ...keys }) =>
    await (await import('#store/stores')).openStore(url, { ...keys, mode: 'operator' }),
  async createStore({ url, ...keys }) {
    const { openStore } = await import('#store/stores')
    const store = await openStore(url, { ...keys, mode: 'server' })
    await store.close()
  },
  checkWritable: (access) => withOperatorStore(access, async (store) => await store.checkWritable()),
  migrate: async ({ url, ...key }, mode) =>
    await (await import('#store/stores')).migrateStore(url, key, mode),
  copyStore: async (...copy) => await (await import('#store/stores')).copyStore(...copy),
  backUp: async ({ url }, file) => await (await import('#store/stores')).backUpStore(url, file),
  verifyJournal: (access, kept) =>
    withOperatorStore(access, async (store) => {
      const plain = await store.verify()
      for (const head of plain.ok ? kept : []) {
        const verified = await store.verify(head)
        if (!verified.ok) return verified
      }
      return plain
    }),
  connect: async (...server) => (await import('#client/index')).connect(...server),
  packageBuild: async (root) => (await import('./package-build.ts')).findPackageBuild(root),
  fetch: (...request) => fetch(...request),
  fetchKnown: (certificate) => async (input, init) => {
    const { request } = await import('node:https')
    const { url, method, headers, signal, body } = new Request(input, init)
    const text = body === null ? '' : await new Response(body).text()
    const { fingerprint256 } = new X509Certificate(certificate)
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const outgoing = request(url, {
      method,
      // The signal of the `Request` above stops following the caller's signal once that object is garbage-collected.
      signal: init?.signal ?? signal,
      agent: false,
      ca: certificate,
      allowPartialTrustChain: true,
      headers: { ...Object.fromEntries(headers), 'content-length': Buffer.byteLength(text) },
      checkServerIdentity: (_name, shown) =>
        shown.fingerprint256 === fingerprint256
          ? undefined
          : new Error('The server shows another certificate.'),
    })
    outgoing.on('error', reject).on('response', resolve).end(text)
    const answer = await promise
    const pairs = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    )
    return new Response(answer, { status: answer.statusCode ?? 0, headers: pairs })
  },
}

async function withOperatorStore<T>(access: StoreAccess, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await REAL_SERVICES.openStore(access)
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}
