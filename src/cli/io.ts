import { X509Certificate } from 'node:crypto'
import type { ColletClient, RequirementResolvers } from '#client/index'
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
  /** With an absolute path. */
  readonly url: string
  readonly dataFolder: string
  readonly masterKey: Uint8Array | undefined
  /** The previous key, while `collet store rekey` changes it. */
  readonly oldMasterKey?: Uint8Array | undefined
}

export interface Services {
  startServer(
    settings: Settings,
    options: {
      readonly allowAnonymous: boolean
      readonly protocols?: NonNullable<StartOptions['protocols']>
      readonly worker?: WorkerShare
      readonly config?: NonNullable<StartOptions['config']>
      readonly developing?: NonNullable<StartOptions['developing']>
    },
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
  migrate(access: StoreAccess, mode: 'migrate' | 'look'): ReturnType<typeof migrateStore>
  /** Copies a whole store into an empty database, or continues an interrupted copy. */
  copyStore: typeof copyStore
  /** Copies the database to a new file; the store may be in use. */
  backUp(access: StoreAccess, file: string): Promise<void>
  verifyJournal(access: StoreAccess, kept: readonly JournalHead[]): Promise<JournalVerification>
  connect(
    url: string,
    options: {
      readonly apiKey: string | undefined
      readonly requirements?: RequirementResolvers
      readonly toolset?: string | undefined
      readonly fetch?: typeof fetch
    },
  ): Promise<Pick<ColletClient, 'list' | 'get' | 'tryCall'>>
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
  /** Exit code; never rejects. */
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

export interface WorkerBegin {
  /** Counted from 1. */
  readonly index: number
  readonly startToken: Secret
  /** The port of the other workers; absent for the first. */
  readonly port?: number | undefined
}

/** One of several processes that form one server, for `serve --workers`. */
export interface WorkerProcess extends ServerProcess {
  /** `undefined` if the process ends before it serves. */
  readonly ready: Promise<WorkerReady | undefined>
  stop(by?: StopRequester): void
  reload(): void
}

/** A worker's connection to the process that started it. */
export interface WorkerSide extends WorkerShare {
  /** Counted from 1. */
  readonly index: number
  /** The port of the other workers; absent for the first. */
  readonly port: number | undefined
  /** Resolves on a request to stop, and when the parent process has ended. */
  readonly stopped: Promise<StopRequester>
  reportReady(ready: WorkerReady): void
}

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
  /** What a person types here to run it: `./collet`, `npx collet`. */
  readonly command: string
  /** The user at the terminal, for the journal. */
  readonly userName: string
  readonly clock: Clock
  readonly services: Services
  /** Calls back at each request to stop; returns a function that ends the subscription. */
  onStop(listener: (by: StopRequester) => void): () => void
  /**
   * Calls back when the config is to be read again (SIGHUP without a terminal); returns a function that ends the
   * subscription.
   */
  onReload(listener: () => void): () => void
  /**
   * Calls back for each unhandled rejection, which then does not end the process; returns a function that ends the
   * subscription.
   */
  onStrayRejection(listener: (reason: unknown) => void): () => void
  /**
   * Calls back for each uncaught exception, which then does not end the process; returns a function that ends the
   * subscription.
   */
  onUncaughtException(listener: (error: unknown) => void): () => void
  exit(code: number): void
  /** Opens an address in the user's browser, if there is one. */
  openBrowser(url: string): void
  /** Starts `collet` again in a child process with these arguments. */
  startProcess(args: readonly string[]): ServerProcess
  /** Starts `collet` again with the current arguments, on the same port. */
  startWorker(begin: WorkerBegin): WorkerProcess
  readonly worker?: WorkerSide | undefined
}

export const REAL_SERVICES: Services = {
  async startServer(settings, options) {
    const { startServer } = await import('#server/start-server')
    return await startServer(settings, options)
  },
  async startStdio(settings, options) {
    const { startStdio } = await import('#server/start-stdio')
    return await startStdio(settings, options)
  },
  async openStore({ url, ...keys }) {
    const { openStore } = await import('#store/stores')
    return await openStore(url, { ...keys, mode: 'operator' })
  },
  async createStore({ url, ...keys }) {
    const { openStore } = await import('#store/stores')
    const store = await openStore(url, { ...keys, mode: 'server' })
    await store.close()
  },
  checkWritable: (access) => withOperatorStore(access, async (store) => await store.checkWritable()),
  async migrate({ url, ...key }, mode) {
    const { migrateStore } = await import('#store/stores')
    return await migrateStore(url, key, mode)
  },
  async copyStore(...copy) {
    const { copyStore } = await import('#store/stores')
    return await copyStore(...copy)
  },
  async backUp({ url }, file) {
    const { backUpStore } = await import('#store/stores')
    await backUpStore(url, file)
  },
  verifyJournal: (access, kept) =>
    withOperatorStore(access, async (store) => {
      const plain = await store.verify()
      if (!plain.ok) return plain
      for (const head of kept) {
        const verified = await store.verify(head)
        if (!verified.ok) return verified
      }
      return plain
    }),
  async connect(url, options) {
    const { connect } = await import('#client/index')
    return connect(url, options)
  },
  async packageBuild(root) {
    const { findPackageBuild } = await import('./package-build.ts')
    return findPackageBuild(root)
  },
  fetch: (...request) => fetch(...request),
  fetchKnown: (certificate) => async (input, init) => {
    const { request } = await import('node:https')
    const { url, method, headers, signal, body } = new Request(input, init)
    const text = body === null ? '' : await new Response(body).text()
    const { fingerprint256 } = new X509Certificate(certificate)
    return await new Promise((resolve, reject) => {
      const asked = request(url, {
        ...{ method, signal, agent: false, ca: certificate, allowPartialTrustChain: true },
        headers: { ...Object.fromEntries(headers), 'content-length': Buffer.byteLength(text) },
        checkServerIdentity: (_name, shown) =>
          shown.fingerprint256 === fingerprint256
            ? undefined
            : new Error('The server shows another certificate.'),
      })
      asked.on('error', reject)
      asked.on('response', (answer) => {
        const heads = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value): [string, string] => [name, value]),
        )
        answer.setEncoding('utf8')
        let received = ''
        answer.on('data', (chunk: string) => {
          received += chunk
        })
        answer.on('error', reject)
        answer.on('end', () =>
          resolve(new Response(received, { status: answer.statusCode ?? 0, headers: heads })),
        )
      })
      asked.end(text)
    })
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
