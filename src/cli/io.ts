import { X509Certificate } from 'node:crypto'
import type { ColletClient, RequirementResolvers } from '#client/index'
import type { Environment } from '#config/environment'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import type { Secret } from '#kernel/base/secret'
import type { JournalHead } from '#kernel/journal/events'
import type { JournalVerification } from '#kernel/ports/store'
import type { RunningServer, ServedCounts, StartOptions, WorkerShare } from '#server/start-server'
import type { StdioServing, StdioStart } from '#server/start-stdio'
import type { Store } from '#store/ports/store'
import type { copyStore, migrateStore } from '#store/stores'
import type { TextStream } from './output.ts'

/** How an operator's command reaches a store. */
export interface StoreAccess {
  /** With an absolute path. */
  readonly url: string
  readonly dataFolder: string
  readonly masterKey: Uint8Array | undefined
  /** The key before, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
}

/** The rooms behind the commands. They are loaded when first used, so that `collet --help` is quick. */
export interface Services {
  startServer(
    settings: Settings,
    options: {
      readonly allowAnonymous: boolean
      readonly opentool?: NonNullable<StartOptions['opentool']>
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
  /** Serves MCP on a pair of streams, without a listener. */
  startStdio(settings: Settings, options: StdioStart): Promise<StdioServing>
  /** Opens for reading and settling; never recovers, never makes a key (rule 17). */
  openStore(access: StoreAccess): Promise<Store>
  /** Makes a store that is not there yet, with its key file, as the first start of a server would. */
  createStore(access: StoreAccess): Promise<void>
  /** Rejects when a server could not read or write this store; writes nothing, not even to the journal. */
  checkWritable(access: StoreAccess): Promise<void>
  /** Brings the tables of a store up to date, or (`look`) says what would be done. */
  migrate(access: StoreAccess, mode: 'migrate' | 'look'): ReturnType<typeof migrateStore>
  /** Copies a whole store into an empty database, or goes on with it. */
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
  /** How to build the package of a checkout; `undefined` where its build is current. */
  packageBuild(root: string): Promise<(() => Promise<void>) | undefined>
  readonly fetch: typeof fetch
  /** The same for a server whose certificate is known: that one is taken and no other, whatever name is in it. */
  fetchKnown(certificate: string): typeof fetch
}

/** A server running in a process of its own, for `serve --watch`. */
export interface ServerProcess {
  /** Exit code; rejects never. */
  readonly ended: Promise<number>
  /** Asks for a graceful end. */
  stop(): void
  /** Ends it at once. */
  kill(): void
}

/**
 * Who asks a command to stop: a supervisor, by SIGTERM, which may have a load balancer that must notice first; or a person, by Ctrl-C
 * or by closing the terminal.
 */
export type StopRequester = 'supervisor' | 'person'

/** What a worker says once it serves. */
export interface WorkerReady
  extends Pick<RunningServer, 'url' | 'startTokenFile' | 'consoleUrl' | 'signInUrl' | 'isKeyed' | 'warnings'>,
    ServedCounts {}

/** What a worker begins with. */
export interface WorkerBegin {
  /** From 1. */
  readonly index: number
  readonly startToken: Secret
  /** Where the others listen; absent for the first. */
  readonly port?: number | undefined
}

/** One of several processes that are one server, for `serve --workers`. */
export interface WorkerProcess extends ServerProcess {
  /** `undefined` when it ends before it serves. */
  readonly ready: Promise<WorkerReady | undefined>
  stop(by?: StopRequester): void
  /** Asks it to read its configuration again. */
  reload(): void
}

/** What such a process has of the one that started it. */
export interface WorkerSide extends WorkerShare {
  /** From 1. */
  readonly index: number
  /** Where the others listen; absent for the first. */
  readonly port: number | undefined
  /** When it is asked to stop, or whoever started it is gone. */
  readonly stopped: Promise<StopRequester>
  tellReady(ready: WorkerReady): void
}

/** Everything a command may touch outside itself, handed in so that tests can replace it. */
export interface CliIo {
  readonly stdin: AsyncIterable<string | Uint8Array> & {
    readonly isTTY?: boolean | undefined
    /** Of a terminal: what is typed comes key by key and is not shown. */
    setRawMode?(on: boolean): unknown
  }
  readonly stdout: TextStream
  readonly stderr: TextStream
  /** From now on nothing else reaches stdout: what tools print goes to stderr. */
  takeStdout(): TextStream
  readonly environment: Environment
  readonly workingFolder: string
  /** The words by which another program starts this one from anywhere, before its arguments. */
  readonly program: readonly string[]
  /** What a person types here to run it: `./collet`, `npx collet`. */
  readonly command: string
  /** Who is at the terminal, for the journal. */
  readonly userName: string
  readonly clock: Clock
  readonly services: Services
  /** Calls back at each request to stop; gives the way to stop listening. */
  onStop(listener: (by: StopRequester) => void): () => void
  /** Calls back when the config is to be read again (SIGHUP of a server that has no terminal); gives the way to stop listening. */
  onReload(listener: () => void): () => void
  /** Calls back for each rejected promise nobody handles, which then does not end the process; gives the way out. */
  onStrayRejection(listener: (reason: unknown) => void): () => void
  /** Calls back for each exception nobody catches, which then does not end the process; gives the way out. */
  onUncaughtException(listener: (error: unknown) => void): () => void
  /** Ends the process now. */
  exit(code: number): void
  /** Opens an address in the person's browser, where that is possible. */
  openBrowser(url: string): void
  /** Starts `collet` again in a child process with these arguments. */
  startProcess(args: readonly string[]): ServerProcess
  /** Starts `collet` once more with the same arguments, on the same port. */
  startWorker(begin: WorkerBegin): WorkerProcess
  /** Present in a process that was started so. */
  readonly worker?: WorkerSide | undefined
}

/** The rooms of this package. */
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
  async checkWritable({ url, ...keys }) {
    const { openStore } = await import('#store/stores')
    const store = await openStore(url, { ...keys, mode: 'operator' })
    try {
      await store.checkWritable()
    } finally {
      await store.close()
    }
  },
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
  async verifyJournal({ url, ...keys }, kept) {
    const { openStore } = await import('#store/stores')
    const store = await openStore(url, { ...keys, mode: 'operator' })
    try {
      const plain = await store.verify()
      if (!plain.ok) return plain
      for (const head of kept) {
        const verified = await store.verify(head)
        if (!verified.ok) return verified
      }
      return plain
    } finally {
      await store.close()
    }
  },
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
        let said = ''
        answer.on('data', (chunk: string) => {
          said += chunk
        })
        answer.on('error', reject)
        answer.on('end', () =>
          resolve(new Response(said, { status: answer.statusCode ?? 0, headers: heads })),
        )
      })
      asked.end(text)
    })
  },
}
