import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CliIo } from './cli-io.ts'
import type { ExitCode } from './exit-codes.ts'
import type { Output } from './output.ts'

export interface PositionalSpec {
  /** Shown in help: `TOOL`. */
  readonly name: string
  readonly optional?: true
  /** Takes all words that follow; only the last one may. */
  readonly many?: true
  readonly help: string
}

export interface CommandContext extends CliIo {
  readonly output: Output
  /** `--json`: data for machines. */
  readonly json: boolean
}

/** One thing the CLI can do: what it is called, what it takes, what it does. */
export interface Command<Name extends string = string> {
  /** One or more words: `calls settle`. */
  readonly name: string
  /** One line, for the list of commands. */
  readonly summary: string
  /** More, for the command's own help. */
  readonly details?: readonly string[]
  readonly positionals: readonly PositionalSpec[]
  readonly options: OptionSpecs<Name>
  readonly examples: readonly string[]
  /** Somebody else's guidelines say how this command reads its arguments and what its help looks like. */
  readonly guest?: GuestCommand
  run(args: Arguments<Name>, context: CommandContext): Promise<ExitCode>
}

/** A command that takes its words as they come. */
export interface GuestCommand {
  readonly help: string
  run(argv: readonly string[], context: CommandContext): Promise<ExitCode>
}

/** Gives the command back; it is there so that `run` can only read options that are declared. */
export function defineCommand<const Name extends string>(command: Command<Name>): Command<Name> {
  return command
}

/** Options that every command has. */
export const COMMON_OPTIONS = {
  json: { help: 'Print data for machines.' },
  help: { short: 'h', help: 'Show this help.' },
} as const satisfies OptionSpecs
