import { parseArgs } from 'node:util'
import { didYouMean } from '#kernel/base/nearest-name'
import type { CliIo } from './io.ts'
import type { Output } from './output.ts'

/** An end that was foreseen: what to say, and the exit code. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly exit: ExitCode

  constructor(exit: ExitCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.exit = exit
  }
}

interface ParsedArguments {
  readonly args: Arguments
  readonly help: boolean
  readonly json: boolean
}

/** Checks what follows a command's name against what the command takes. */
export function parseArguments(command: Command, argv: readonly string[]): ParsedArguments {
  const specs = new Map<string, OptionSpec>(Object.entries({ ...command.options, ...COMMON_OPTIONS }))
  const { tokens } = parseArgs({
    args: withValues(argv, specs).map(hideDash),
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries([...specs].map(([name, spec]) => [name, parserOption(spec)])),
  })
  const values = new Map<string, string[]>()
  const flags = new Set<string>()
  const positionals: string[] = []
  let dashes: number | undefined
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(showDash(token.value))
    if (token.kind === 'option-terminator') dashes = positionals.length
    if (token.kind === 'option') readOption(token, specs, values, flags)
  }
  const help = flags.has('help')
  if (!help) checkPositionals(command, positionals, specs.keys())
  return { args: new Arguments(positionals, values, flags, dashes), help, json: flags.has('json') }
}

/** Writes out the values of options that may do without one: `--from --yes` is `--from=all --yes`. */
function withValues(argv: readonly string[], specs: ReadonlyMap<string, OptionSpec>): readonly string[] {
  const dashes = argv.indexOf('--')
  return argv.map((word, index) => {
    const otherwise = specs.get(word.replace(/^--/, ''))?.otherwise
    const isOption = word.startsWith('--') && (dashes === -1 || index < dashes)
    if (!isOption || otherwise === undefined) return word
    const next = argv[index + 1]
    return next === undefined || next.startsWith('-') ? `${word}=${otherwise}` : word
  })
}

interface OptionToken {
  readonly name: string
  readonly rawName: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

function readOption(
  { name, rawName, value, inlineValue }: OptionToken,
  specs: ReadonlyMap<string, OptionSpec>,
  values: Map<string, string[]>,
  flags: Set<string>,
): void {
  const spec = specs.get(name)
  if (spec === undefined)
    throw new UsageError(`Unknown option ${rawName}.${suggestOption(name, specs.keys())}`)
  if (spec.value === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value.`)
    flags.add(name)
    return
  }
  // `--config --watch` is a forgotten value, not a file called "--watch"; `--config=--watch` is one.
  if (value === undefined || value === '' || (inlineValue !== true && value.startsWith('--'))) {
    throw new UsageError(`--${name} needs a value: --${name} ${spec.value}.`)
  }
  const given = values.get(name) ?? []
  if (given.length > 0 && spec.many !== true) throw new UsageError(`--${name} is given twice.`)
  values.set(name, [...given, showDash(value)])
}

/** No argument of a process can contain it. */
const MARK = '\0'

/**
 * Records and other ids may begin with a dash, and we have no groups of short options: `-x` is an option, `-xyz` is
 * a word.
 */
function hideDash(argument: string): string {
  return /^-[^-]./.test(argument) ? MARK + argument : argument
}

function showDash(argument: string): string {
  return argument.startsWith(MARK) ? argument.slice(MARK.length) : argument
}

function parserOption(spec: OptionSpec) {
  const type = spec.value === undefined ? ('boolean' as const) : ('string' as const)
  return { type, ...(spec.short === undefined ? {} : { short: spec.short }) }
}

function suggestOption(name: string, known: Iterable<string>): string {
  return didYouMean(
    `--${name}`,
    [...known].map((option) => `--${option}`),
  )
}

function checkPositionals(
  { name, positionals }: Command,
  given: readonly string[],
  options: Iterable<string>,
): void {
  const missing = positionals[given.length]
  if (missing !== undefined && missing.optional !== true) {
    throw new UsageError(`collet ${name} needs ${missing.name}: ${missing.help}`)
  }
  const surplus = given[positionals.length]
  if (surplus === undefined || positionals.at(-1)?.many === true) return
  const meant = surplus.startsWith('-') ? suggestOption(surplus.slice(1), options) : ''
  throw new UsageError(`collet ${name} does not take "${surplus}".${meant}`)
}

interface PositionalSpec {
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
  /** The guidelines of another project say how this command reads its arguments and what its help looks like. */
  readonly guest?: GuestCommand
  run(args: Arguments<Name>, context: CommandContext): Promise<ExitCode>
}

/** A command that takes its words as they come. */
interface GuestCommand {
  readonly help: string
  run(argv: readonly string[], context: CommandContext): Promise<ExitCode>
}

/** Gives the command back; it is there so that `run` can only read options that are declared. */
export function defineCommand<const Name extends string>(command: Command<Name>): Command<Name> {
  return command
}

/** Options that every command has. */
export const COMMON_OPTIONS = {
  json: { help: 'Print JSON, for machines.' },
  help: { short: 'h', help: 'Show this help.' },
} as const satisfies OptionSpecs

/** What a command's exit says; scripts rely on it. */
export const EXIT = {
  ok: 0,
  /** The tool ran and failed, or a check that was asked for did not hold. */
  toolFailed: 1,
  /** The command line, the configuration or the input is wrong. */
  usage: 2,
  /** The server, the store or the way to it. */
  server: 3,
  /** A command line that breaks the OpenTool guidelines, which have a code of their own for it (OTS-75). */
  opentoolUsage: 64,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** One `--option` of a command. */
export interface OptionSpec {
  /** Shown in help as `--port N`; absent = a flag without a value. */
  readonly value?: string
  readonly short?: string
  /** The command does not work without it; the command itself says so in its own words. */
  readonly required?: true
  /** May be given several times. */
  readonly many?: true
  /** The value of an option that is given without one. */
  readonly otherwise?: string
  readonly help: string
}

export type OptionSpecs<Name extends string = string> = Readonly<Record<Name, OptionSpec>>

/** A command's parsed arguments; reading one checks it. */
export class Arguments<Name extends string = string> {
  readonly positionals: readonly string[]
  /** The words after `--`, which are among the positionals too; absent without it. */
  readonly afterDashes: readonly string[] | undefined
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #flags: ReadonlySet<string>

  constructor(
    positionals: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    flags: ReadonlySet<string>,
    /** How many positionals stand before `--`. */
    dashes?: number,
  ) {
    this.positionals = positionals
    this.afterDashes = dashes === undefined ? undefined : positionals.slice(dashes)
    this.#values = values
    this.#flags = flags
  }

  flag(name: Name): boolean {
    return this.#flags.has(name)
  }

  text(name: Name): string | undefined {
    return this.#values.get(name)?.[0]
  }

  texts(name: Name): readonly string[] {
    return this.#values.get(name) ?? []
  }

  integer(name: Name, range: { readonly least: number; readonly most: number }): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (number >= range.least && number <= range.most) return number
    throw new UsageError(
      `--${name} expects a whole number from ${range.least} to ${range.most}, got "${text}".`,
    )
  }

  /** A time: `2026-01-31`, `2026-01-31T10:00:00Z`, or how long ago, `90s`, `30m`, `12h`, `7d`. */
  moment(name: Name, nowMs: number): Date | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const [, amount = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
    const atMs = unit === '' ? timeOf(text) : nowMs - Number(amount) * (UNIT_MS.get(unit) ?? 0)
    if (Number.isFinite(atMs)) return new Date(atMs)
    throw new UsageError(
      `--${name} expects a time like 2026-01-31 or 2026-01-31T10:00:00Z, or how long ago, like 30m, 12h or 7d; got "${text}".`,
    )
  }

  oneOf<const Choice extends string>(name: Name, choices: readonly Choice[]): Choice | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const choice = choices.find((known) => known === text)
    if (choice !== undefined) return choice
    throw new UsageError(`--${name} expects one of ${choices.join(', ')}; got "${text}".`)
  }
}

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

/** Only what is written as ISO 8601 says: `Date` alone would guess at more. */
function timeOf(text: string): number {
  return /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2})?)?$/.test(text) ? Date.parse(text) : Number.NaN
}

/** A command line that cannot be understood. Ends with exit code 2 and a pointer to `--help`. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
