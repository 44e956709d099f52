import type { Environment } from '#config/environment'
import type { Clock } from '#core/runtime'
import type { TextStream } from './output.ts'
import type { Services } from './services.ts'

/** A server running in a process of its own, for `serve --watch`. */
export interface ServerProcess {
  /** Exit code; rejects never. */
  readonly ended: Promise<number>
  /** Asks for a graceful end. */
  stop(): void
  /** Ends it at once. */
  kill(): void
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
  /** Who is at the terminal, for the journal. */
  readonly userName: string
  readonly clock: Clock
  readonly services: Services
  /** Calls back at each request to stop (Ctrl-C, SIGTERM, a closed terminal); gives the way to stop listening. */
  onStop(listener: () => void): () => void
  /** Calls back for each rejected promise nobody handles, which then does not end the process; gives the way out. */
  onStrayRejection(listener: (reason: unknown) => void): () => void
  /** Calls back for each exception nobody catches, which then does not end the process; gives the way out. */
  onUncaughtException(listener: (error: unknown) => void): () => void
  /** Ends the process now. */
  exit(code: number): void
  /** Starts `collet` again in a child process with these arguments. */
  startProcess(args: readonly string[]): ServerProcess
}
