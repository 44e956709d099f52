import type { ExitCode } from './exit-codes.ts'

/** An end that was foreseen: what to say, and the exit code. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly exit: ExitCode

  constructor(exit: ExitCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.exit = exit
  }
}
