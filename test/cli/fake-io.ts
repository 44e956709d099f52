import type { CliIo, Services, StopRequester } from '#cli/io'
import { runCli } from '#cli/run'
import { readEnvironment } from '#config/environment'

/** A simulated terminal: keeps what a command writes, and provides only what the test passes. */
export class FakeIo {
  stdout = ''
  stderr = ''
  readonly exits: number[] = []
  readonly #listeners = new Set<(by: StopRequester) => void>()
  readonly #changes: Partial<CliIo>
  readonly #services: Partial<Services>

  constructor(services: Partial<Services> = {}, changes: Partial<CliIo> = {}) {
    this.#services = services
    this.#changes = changes
  }

  /** Runs one command line; returns its exit code. */
  run(...argv: string[]): Promise<number> {
    return runCli(argv, this.io)
  }

  /** Ctrl-C, or SIGTERM. */
  stop(by: StopRequester = 'person'): void {
    for (const listener of [...this.#listeners]) listener(by)
  }

  get io(): CliIo {
    return {
      stdin: chunks(),
      stdout: {
        write: (text) => {
          this.stdout += text
        },
      },
      stderr: {
        write: (text) => {
          this.stderr += text
        },
      },
      takeStdout: () => this.io.stdout,
      environment: readEnvironment({}),
      workingFolder: '/nowhere',
      program: ['/bin/node', '/lib/collet.js'],
      command: 'collet',
      userName: 'tester',
      clock: { nowMs: () => Date.UTC(2026, 0, 1), monotonicMs: () => performance.now() },
      services: { ...NO_SERVICES, ...this.#services },
      onStop: (listener) => {
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
      onStrayRejection: () => () => {},
      onUncaughtException: () => () => {},
      exit: (code) => this.exits.push(code),
      openBrowser: () => unused('openBrowser'),
      startProcess: () => unused('startProcess'),
      startWorker: () => unused('startWorker'),
      onReload: () => () => {},
      ...this.#changes,
    }
  }
}

/** The content of stdin. */
export async function* chunks(...texts: string[]): AsyncIterable<string> {
  yield* texts
}

const NO_SERVICES: Services = {
  startServer: () => unused('startServer'),
  startStdio: () => unused('startStdio'),
  openStore: () => unused('openStore'),
  createStore: () => unused('createStore'),
  migrate: () => unused('migrate'),
  copyStore: () => unused('copyStore'),
  checkWritable: () => unused('checkWritable'),
  backUp: () => unused('backUp'),
  verifyJournal: () => unused('verifyJournal'),
  connect: () => unused('connect'),
  packageBuild: () => Promise.resolve(undefined),
  fetch: () => unused('fetch'),
  fetchKnown: () => unused('fetchKnown'),
}

function unused(name: string): never {
  throw new Error(`${name} is not part of this test`)
}
