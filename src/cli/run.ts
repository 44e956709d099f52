import { ConfigError } from '#config/load'
import { isToolError, StoreError } from '#kernel/base/errors'
import { cleanText } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { StartRefused } from '#server/safety'
import { KEPT_STORE_FORMS } from '#store/stores'
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
import type { CliIo } from './io.ts'
import { Output, renderList } from './output.ts'
import { problemText } from './store-access.ts'

/**
 * Runs one command line: finds the command, parses its arguments, runs it, and turns errors into messages and exit
 * codes. It also renders the help. `main.ts` calls `runCli`; docs/cli.md is generated from the help. Invariant:
 * `runCli` never throws.
 */

type LoadModule = () => Promise<{ readonly COMMANDS: readonly Command[] }>

/**
 * The module of each command by the first word of its name, in the groups and the order of the help. A module is
 * imported when its word is typed, so no command waits for the code of the others.
 */
const GROUPS: Readonly<Record<string, Readonly<Record<string, LoadModule>>>> = {
  Start: {
    init: () => import('#cli/commands/init'),
    dev: () => import('#cli/commands/dev'),
    serve: () => import('#cli/commands/serve'),
    import: () => import('#cli/commands/import'),
    connect: () => import('#cli/commands/connect'),
    doctor: () => import('#cli/commands/doctor'),
  },
  Tools: {
    tools: () => import('#cli/commands/tools'),
    toolsets: () => import('#cli/commands/tools'),
    sources: () => import('#cli/commands/sources'),
    pins: () => import('#cli/commands/pins'),
    types: () => import('#cli/commands/tools'),
  },
  Calls: {
    call: () => import('#cli/commands/call'),
    calls: () => import('#cli/commands/calls'),
    overview: () => import('#cli/commands/usage'),
    usage: () => import('#cli/commands/usage'),
    budgets: () => import('#cli/commands/usage'),
  },
  Approvals: {
    approvals: () => import('#cli/commands/approvals'),
    'sign-in': () => import('#cli/commands/approvals'),
    rules: () => import('#cli/approvals/rules'),
  },
  Access: {
    keys: () => import('#cli/commands/keys'),
    secrets: () => import('#cli/commands/secrets'),
    vault: () => import('#cli/commands/secrets'),
    audit: () => import('#cli/commands/journal'),
  },
  Store: {
    journal: () => import('#cli/commands/journal'),
    export: () => import('#cli/audit/export'),
    verify: () => import('#cli/audit/verify'),
    backup: () => import('#cli/commands/store'),
    migrate: () => import('#cli/commands/store'),
    store: () => import('#cli/commands/store'),
  },
  Advanced: {
    mcp: () => import('#cli/commands/serve'),
    reload: () => import('#cli/commands/reload'),
    webhooks: () => import('#cli/commands/webhooks'),
    version: () => import('#cli/commands/doctor'),
    opentool: () => import('#cli/commands/opentool'),
  },
}

const MODULES: ReadonlyMap<string, LoadModule> = new Map(Object.values(GROUPS).flatMap(Object.entries))

/** Matches `collet serve`, `npx collet --help` and similar in a text. */
const COMMAND_IN_TEXT = new RegExp(
  `(?<![\\w./-])(?:npx )?collet (?=(?:--help|COMMAND|${[...MODULES.keys()].join('|')})(?![\\w-]))`,
  'g',
)

/** Runs one command line, without the name of the program. */
export async function runCli(argv: readonly string[], io: CliIo): Promise<ExitCode> {
  const { stdout, stderr, environment } = io
  const output = new Output({
    stdout,
    stderr,
    noColor: environment.noColor,
    // Each command in a text is written as the user types it here.
    phrase: (text) => text.replaceAll(COMMAND_IN_TEXT, () => `${io.command} `),
  })
  const [first = '', ...others] = argv
  const words = first === '--version' || first === '-v' ? ['version', ...others] : argv
  const family = await loadFamily(words[0])
  const command = findCommand(family, words)
  if (command === undefined) return await overview(words, family, output)
  const rest = words.slice(command.name.split(' ').length)
  const stray = strayWord(command, rest, family)
  if (stray !== undefined) return refuse(stray, output)
  try {
    if (command.rawArgs !== undefined) return await command.rawArgs.run(rest, { ...io, output, json: false })
    const { args, help, json } = parseArguments(command, rest)
    if (help) {
      output.sentence(renderCommandHelp(command))
      return EXIT.ok
    }
    return (await command.run(args, { ...io, output, json })) ?? EXIT.ok
  } catch (error) {
    return report(error, command, io, output)
  }
}

export async function loadCommands(): Promise<readonly Command[]> {
  return (await Promise.all([...MODULES.keys()].map(loadFamily))).flat()
}

/** `keys` → `keys create`, `keys rotate` …; none if no command begins with the word. */
async function loadFamily(word: string | undefined): Promise<readonly Command[]> {
  const load = MODULES.get(word ?? '')
  return load === undefined ? [] : (await load()).COMMANDS.filter(({ name }) => name.split(' ')[0] === word)
}

/** The command with the longest matching name: `calls settle` before `calls`. */
function findCommand(family: readonly Command[], words: readonly string[]): Command | undefined {
  return family
    .filter(({ name }) => name.split(' ').every((word, index) => words[index] === word))
    .sort((left, right) => right.name.length - left.name.length)[0]
}

/** Handles words that are not a command: prints help, or suggests the nearest command. */
async function overview(
  [first, ...rest]: readonly string[],
  family: readonly Command[],
  output: Output,
): Promise<ExitCode> {
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    const named = await loadFamily(rest[0])
    const command = findCommand(named, rest)
    output.sentence(
      command === undefined
        ? renderOverview(named.length === 0 ? await loadCommands() : named)
        : renderCommandHelp(command),
    )
    return first === undefined ? EXIT.usage : EXIT.ok
  }
  if (family.length > 0 && (rest[0] === '--help' || rest[0] === '-h')) {
    output.sentence(renderOverview(family))
    return EXIT.ok
  }
  return refuse(await unknownCommand(first, rest, family), output)
}

function refuse(message: string, output: Output): ExitCode {
  output.error(message)
  output.note('See: collet --help')
  return EXIT.usage
}

/** Detects a mistyped subcommand (`calls setle …`) of a command that takes no arguments itself. */
function strayWord(
  { name, positionals = [], rawArgs }: Command,
  [word]: readonly string[],
  family: readonly Command[],
): string | undefined {
  const others = family.map((each) => each.name).filter((each) => each.startsWith(`${name} `))
  const isStray = word !== undefined && !word.startsWith('-') && positionals.length === 0
  if (!isStray || others.length === 0 || rawArgs !== undefined) return undefined
  const typed = `${name} ${word}`
  return `Unknown command "${cleanText(typed)}".${didYouMean(typed, others) || ` Commands: ${others.join(', ')}.`}`
}

async function unknownCommand(
  first: string,
  rest: readonly string[],
  family: readonly Command[],
): Promise<string> {
  if (first.startsWith('-')) return `The command comes first: collet COMMAND ${first}.`
  if (family.length > 0) {
    const typed = [first, ...rest.slice(0, 1)].join(' ')
    return `"collet ${cleanText(typed)}" is not a command. Commands: ${family.map(({ name }) => name).join(', ')}.`
  }
  const names = (await loadCommands()).map(({ name }) => name)
  return `Unknown command "${cleanText(first)}".${didYouMean(first, new Set([...names, ...MODULES.keys()]))}`
}

const NOT_ALLOWED = 'Change its owner or permissions for the user who runs this, or choose another path'

/** Next steps for errors of the file system. */
const ADVICE: ReadonlyMap<unknown, string> = new Map([
  ['EACCES', NOT_ALLOWED],
  ['EPERM', NOT_ALLOWED],
  ['EROFS', 'It is on a read-only file system. Choose another path'],
  ['ENOSPC', 'The disk is full. Free some space'],
  ['ENOENT', 'Create the folder, or choose another path'],
  ['ENOTDIR', 'A part of that path is a file, not a folder. Choose another path'],
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
  if (error instanceof CommandFailure || isToolError(error)) {
    const [first = '', ...rest] = error.message.split('\n')
    output.error(cleanText(first))
    for (const line of rest) output.note(cleanText(line))
    return isToolError(error) ? EXIT.usage : error.exit
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
    if (advice !== undefined) output.note(`  ${advice}${storeHint(command, advice)}.`)
    return EXIT.server
  }
  output.error(
    error instanceof Error
      ? `Unexpected failure, please report it.\n${error.stack ?? error.message}`
      : `Unexpected failure: ${cleanText(String(error))}`,
  )
  return EXIT.server
}

/** Suggests `--store`, for commands that have that option. */
function storeHint({ options }: Command, advice: string): string {
  return 'store' in options && advice.endsWith('another path') ? ` (--store ${KEPT_STORE_FORMS})` : ''
}

const EXIT_CODES =
  'Exit codes: 0 ok, 1 the tool or check failed, 2 usage or configuration, 3 server, store or transport.'

/** The text of `collet COMMAND --help`. */
export function renderCommandHelp(command: Command): string {
  const { rawArgs, summary, details = [], positionals = [], examples } = command
  if (rawArgs !== undefined) return rawArgs.help
  const words = positionals.map(({ name, help }) => [name, help])
  const options = Object.entries<OptionSpec>({ ...command.options, ...COMMON_OPTIONS }).map(
    ([name, { short, help, required, ...spec }]) => [
      `${short === undefined ? '' : `-${short}, `}${optionText(name, spec)}`,
      `${required === true ? 'Required. ' : ''}${help}`,
    ],
  )
  return [
    `Usage: ${usageOf(command)}`,
    [summary, ...details].join('\n'),
    ...(words.length === 0 ? [] : [section('Arguments', words)]),
    section('Options', options),
    ['Examples:', ...examples.map((example) => `  ${example}`)].join('\n'),
    EXIT_CODES,
  ].join('\n\n')
}

/** The text of `collet --help`, or of `collet keys --help` for the commands of one word. */
export function renderOverview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length))
  const groups = Object.entries(GROUPS).flatMap(([title, words]) => {
    const members = commands.filter(({ name }) => Object.hasOwn(words, name.split(' ')[0] ?? ''))
    const rows = members.map(({ name, summary }) => [name.padEnd(width), summary])
    return rows.length === 0 ? [] : [section(title, rows)]
  })
  return [
    'Usage: collet COMMAND [options]',
    'Serves tools, calls them, and manages the record of every call.',
    ...groups,
    'collet COMMAND --help shows arguments, options and examples.',
    EXIT_CODES,
  ].join('\n\n')
}

function usageOf({ name, positionals = [], options }: Command): string {
  const words = positionals.map(({ name: word, optional, many }) => {
    const text = many === true ? `${word}…` : word
    return optional === true ? `[${text}]` : text
  })
  const flags = Object.entries<OptionSpec>(options).map(([option, { value, many, required }]) => {
    const bare = optionText(option, { value })
    const text = required === true ? bare : `[${bare}]`
    return many === true ? `${text}…` : text
  })
  return ['collet', name, ...words, ...flags, '[--json]'].join(' ')
}

function optionText(name: string, { value }: { readonly value?: string | undefined }): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`
}

function section(title: string, rows: readonly (readonly string[])[]): string {
  return [`${title}:`, ...renderList(rows)].join('\n')
}
