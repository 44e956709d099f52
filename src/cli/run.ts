import {
  approvalsApprove,
  approvalsLink,
  approvalsList,
  approvalsReject,
  approvalsShow,
} from '#cli/commands/approvals'
import { call, tools } from '#cli/commands/call'
import { calls, callsCancel, callsSettle } from '#cli/commands/calls'
import { doctor, version } from '#cli/commands/doctor'
import { importSource } from '#cli/commands/import'
import { backup, journal, journalHeads, journalVerify } from '#cli/commands/journal'
import { keysCreate, keysGenerate, keysList, keysRevoke, keysRotate } from '#cli/commands/keys'
import { opentoolExport, opentoolStart, opentoolValidate } from '#cli/commands/opentool'
import { pinsAccept, pinsDiff, pinsList, pinsReject } from '#cli/commands/pins'
import { secretsList, secretsRemove, secretsSet, vaultRotate } from '#cli/commands/secrets'
import { mcp, serve } from '#cli/commands/serve'
import { sources, sourcesRefresh, sourcesRemove } from '#cli/commands/sources'
import { ConfigError } from '#config/load'
import { StoreError } from '#core/errors'
import { cleanText } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import { StartRefused } from '#server/safety'
import {
  COMMON_OPTIONS,
  type Command,
  CommandFailure,
  EXIT,
  type ExitCode,
  type OptionSpec,
  parseArguments,
  UsageError,
} from './command.ts'
import type { CliIo } from './main.ts'
import { Output, renderTable } from './output.ts'
import { problemText } from './project.ts'

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

const EXIT_CODES =
  'Exit codes: 0 ok, 1 the tool or check failed, 2 usage or configuration, 3 server, store or transport.'

/** The text of `collet COMMAND --help`. */
export function renderCommandHelp(command: Command): string {
  if (command.guest !== undefined) return command.guest.help
  const options = Object.entries({ ...command.options, ...COMMON_OPTIONS })
  const sections = [
    `Usage: ${usageOf(command)}`,
    [command.summary, ...(command.details ?? [])].join('\n'),
    ...(command.positionals.length === 0
      ? []
      : [
          section(
            'Arguments',
            command.positionals.map(({ name, help }) => [name, help]),
          ),
        ]),
    section(
      'Options',
      options.map(([name, spec]) => [optionText(name, spec), helpText(spec)]),
    ),
    ['Examples:', ...command.examples.map((example) => `  ${example}`)].join('\n'),
    EXIT_CODES,
  ]
  return sections.join('\n\n')
}

/** The text of `collet --help`. */
export function renderOverview(commands: readonly Command[]): string {
  return [
    'Usage: collet COMMAND [options]',
    'Serves tools, calls them, and looks after the record of every call.',
    section(
      'Commands',
      commands.map(({ name, summary }) => [name, summary]),
    ),
    'collet COMMAND --help shows arguments, options and examples.',
    EXIT_CODES,
  ].join('\n\n')
}

function usageOf({ name, positionals, options }: Command): string {
  const words = positionals.map(({ name: word, optional, many }) => {
    const text = many === true ? `${word}…` : word
    return optional === true ? `[${text}]` : text
  })
  const flags = Object.entries<OptionSpec>(options).map(([option, { value, many, required }]) => {
    const bare = value === undefined ? `--${option}` : `--${option} ${value}`
    const text = required === true ? bare : `[${bare}]`
    return many === true ? `${text}…` : text
  })
  return ['collet', name, ...words, ...flags, '[--json]'].join(' ')
}

function helpText({ help, required }: OptionSpec): string {
  return required === true ? `Required. ${help}` : help
}

function optionText(name: string, { value, short }: OptionSpec): string {
  const long = value === undefined ? `--${name}` : `--${name} ${value}`
  return short === undefined ? long : `-${short}, ${long}`
}

function section(title: string, rows: readonly (readonly string[])[]): string {
  const lines = renderTable(['', ''], rows).slice(1)
  return [`${title}:`, ...lines.map((line) => `  ${line}`)].join('\n')
}

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  serve,
  mcp,
  tools,
  sources,
  sourcesRefresh,
  sourcesRemove,
  call,
  calls,
  callsSettle,
  callsCancel,
  approvalsList,
  approvalsShow,
  approvalsApprove,
  approvalsReject,
  approvalsLink,
  pinsList,
  pinsDiff,
  pinsAccept,
  pinsReject,
  journal,
  journalVerify,
  journalHeads,
  importSource,
  secretsSet,
  secretsList,
  secretsRemove,
  vaultRotate,
  opentoolStart,
  opentoolValidate,
  opentoolExport,
  backup,
  doctor,
  keysCreate,
  keysRotate,
  keysList,
  keysRevoke,
  keysGenerate,
  version,
]
