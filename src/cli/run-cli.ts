import { ConfigError } from '#config/load'
import { StoreError } from '#core/errors'
import { cleanText } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import { StartRefused } from '#server/safety'
import type { CliIo } from './cli-io.ts'
import type { Command } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { COMMANDS } from './commands.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { renderCommandHelp, renderOverview } from './help.ts'
import { problemText } from './load-project.ts'
import { Output } from './output.ts'
import { parseArguments } from './parse-arguments.ts'
import { UsageError } from './usage-error.ts'

/** Runs one command line, without the program's own name; never throws. */
export async function runCli(argv: readonly string[], io: CliIo): Promise<ExitCode> {
  const { stdout, stderr, environment } = io
  const output = new Output({ stdout, stderr, noColor: environment.noColor })
  const command = findCommand(argv)
  if (command === undefined) return overview(argv, output)
  const stray = strayWord(command, argv)
  if (stray !== undefined) return refuse(stray, output)
  const words = argv.slice(command.name.split(' ').length)
  try {
    if (command.guest !== undefined) return await command.guest.run(words, { ...io, output, json: false })
    const { args, help, json } = parseArguments(command, words)
    if (help) {
      output.data(renderCommandHelp(command))
      return EXIT.ok
    }
    return await command.run(args, { ...io, output, json })
  } catch (error) {
    return report(error, command, io, output)
  }
}

/** The command with the longest name that the words begin with: `calls settle` before `calls`. */
function findCommand(argv: readonly string[]): Command | undefined {
  const words = argv[0] === '--version' || argv[0] === '-v' ? ['version'] : argv
  return COMMANDS.filter(({ name }) => name.split(' ').every((word, place) => words[place] === word)).sort(
    (left, right) => right.name.length - left.name.length,
  )[0]
}

function overview(argv: readonly string[], output: Output): ExitCode {
  const [first, ...rest] = argv
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    const asked = rest.length === 0 ? undefined : findCommand(rest)
    output.data(asked === undefined ? renderOverview(familyOf(rest[0])) : renderCommandHelp(asked))
    return first === undefined ? EXIT.usage : EXIT.ok
  }
  const isHelp = rest[0] === '--help' || rest[0] === '-h'
  if (isHelp && COMMANDS.some(({ name }) => name.startsWith(`${first} `))) {
    output.data(renderOverview(familyOf(first)))
    return EXIT.ok
  }
  return refuse(unknownCommand(first, rest), output)
}

/** `keys` → `keys create`, `keys rotate` …; every command for a word that begins none. */
function familyOf(word: string | undefined): readonly Command[] {
  const family = COMMANDS.filter(({ name }) => name.split(' ')[0] === word)
  return family.length === 0 ? COMMANDS : family
}

function refuse(message: string, output: Output): ExitCode {
  output.error(message)
  output.note('See: collet --help')
  return EXIT.usage
}

/** `calls setle …`: a word after a command that has subcommands and takes no words itself. */
function strayWord(command: Command, argv: readonly string[]): string | undefined {
  const word = argv[command.name.split(' ').length]
  const family = COMMANDS.filter(({ name }) => name.startsWith(`${command.name} `)).map(({ name }) => name)
  if (word === undefined || word.startsWith('-') || family.length === 0 || command.positionals.length > 0) {
    return undefined
  }
  if (command.guest !== undefined) return undefined
  const typed = `${command.name} ${word}`
  return `Unknown command "${cleanText(typed)}".${didYouMean(typed, family) || ` There is: ${family.join(', ')}.`}`
}

function unknownCommand(first: string, rest: readonly string[]): string {
  if (first.startsWith('-')) return `The command comes first: collet COMMAND ${first}.`
  const family = COMMANDS.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name)
  if (family.length > 0) {
    const typed = [first, ...rest.slice(0, 1)].join(' ')
    return `"collet ${cleanText(typed)}" is not a command. There is: ${family.join(', ')}.`
  }
  const known = new Set(COMMANDS.flatMap(({ name }) => [name, name.split(' ')[0] ?? '']))
  return `Unknown command "${cleanText(first)}".${didYouMean(first, known)}`
}

const NOT_ALLOWED =
  'Change the owner or the permissions of that place for the user who runs this, or choose another one (--store sqlite:PATH).'

/** What to do about an error of the file system. */
const ADVICE: ReadonlyMap<unknown, string> = new Map([
  ['EACCES', NOT_ALLOWED],
  ['EPERM', NOT_ALLOWED],
  ['EROFS', 'That place is mounted read-only. Choose another one (--store sqlite:PATH).'],
  ['ENOSPC', 'The disk is full. Free some space.'],
  ['ENOENT', 'Make that folder, or name another place.'],
  ['ENOTDIR', 'A part of that path is a file, not a folder. Choose another place (--store sqlite:PATH).'],
])

function report(error: unknown, command: Command, io: CliIo, output: Output): ExitCode {
  if (error instanceof UsageError) {
    output.error(cleanText(error.message))
    output.note(`See: collet ${command.name} --help`)
    return EXIT.usage
  }
  if (error instanceof ConfigError) {
    for (const problem of error.problems) {
      const text = problemText(problem, io.workingFolder)
      if (problem.severity === 'error') output.error(text)
      else output.warn(text)
    }
    return EXIT.usage
  }
  if (error instanceof CommandFailure) {
    output.error(cleanText(error.message))
    return error.exit
  }
  if (error instanceof StoreError) {
    output.error(`Store: ${cleanText(error.message)}`)
    return EXIT.server
  }
  if (error instanceof StartRefused) {
    for (const line of error.message.split('\n')) output.error(cleanText(line))
    return EXIT.usage
  }
  if (error instanceof Error && 'syscall' in error) {
    output.error(cleanText(error.message))
    const advice = 'code' in error ? ADVICE.get(error.code) : undefined
    if (advice !== undefined) output.note(`  ${advice}`)
    return EXIT.server
  }
  output.error(unexpected(error))
  return EXIT.server
}

function unexpected(error: unknown): string {
  if (!(error instanceof Error)) return `Unexpected failure: ${cleanText(String(error))}`
  return `Unexpected failure, please report it.\n${error.stack ?? error.message}`
}
