import { parseArgs } from 'node:util'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import type { CliIo } from './io.ts'
import type { Output } from './output.ts'

/**
 * The type of a command (name, help, arguments, options, exit codes) and the parser of its command line. The modules in
 * `commands` define commands with `defineCommand`, and `run.ts` runs them. Invariant: a command reads only options that
 * it declares, and each value is checked when it is read.
 */

/** An expected failure: its message is printed without a stack, and its exit code is returned. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly exit: ExitCode

  constructor(exit: ExitCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.exit = exit
  }
}

/** Parses the words after a command's name against its arguments and options. */
export function parseArguments(command: Command, argv: readonly string[]) {
  const specs = new Map<string, OptionSpec>(Object.entries({ ...command.options, ...COMMON_OPTIONS }))
  const { tokens } = parseArgs({
    args: withValues(argv, specs).map(maskDash),
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      [...specs].map(([name, { value, short }]) => [
        name,
        defined({ type: value === undefined ? ('boolean' as const) : ('string' as const), short }),
      ]),
    ),
  })
  const values = new Map<string, string[]>()
  const flags = new Set<string>()
  const positionals: string[] = []
  let dashIndex: number | undefined
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(unmaskDash(token.value))
    if (token.kind === 'option-terminator') dashIndex = positionals.length
    if (token.kind === 'option') readOption(token, specs, values, flags)
  }
  const help = flags.has('help')
  if (!help) checkPositionals(command, positionals, specs.keys())
  return { args: new Arguments(positionals, values, flags, dashIndex), help, json: flags.has('json') }
}

/** Adds the value of an option that may be given without one: `--from --yes` is `--from=all --yes`. */
function withValues(argv: readonly string[], specs: ReadonlyMap<string, OptionSpec>): readonly string[] {
  const dashIndex = argv.indexOf('--')
  return argv.map((word, index) => {
    const bareValue = specs.get(word.replace(/^--/, ''))?.bareValue
    const isOption = word.startsWith('--') && (dashIndex === -1 || index < dashIndex)
    if (!isOption || bareValue === undefined) return word
    const next = argv[index + 1]
    return next === undefined || next.startsWith('-') ? `${word}=${bareValue}` : word
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
  // `--config --watch` lacks a value; only `--config=--watch` names a file called "--watch".
  if (value === undefined || value === '' || (inlineValue !== true && value.startsWith('--'))) {
    throw new UsageError(`--${name} needs a value: --${name} ${spec.value}.`)
  }
  const earlier = values.get(name) ?? []
  if (earlier.length > 0 && spec.many !== true) throw new UsageError(`--${name} is given twice.`)
  values.set(name, [...earlier, unmaskDash(value)])
}

/** A character that no process argument can contain. */
const MARK = '\0'

/** Makes `parseArgs` read `-xyz` as a word: ids may begin with a dash, and short options cannot be grouped. */
function maskDash(argument: string): string {
  return /^-[^-]./.test(argument) ? MARK + argument : argument
}

function unmaskDash(argument: string): string {
  return argument.startsWith(MARK) ? argument.slice(MARK.length) : argument
}

function suggestOption(name: string, known: Iterable<string>): string {
  return didYouMean(
    `--${name}`,
    [...known].map((option) => `--${option}`),
  )
}

function checkPositionals(
  { name, positionals = [] }: Command,
  words: readonly string[],
  options: Iterable<string>,
): void {
  const missing = positionals[words.length]
  if (missing !== undefined && missing.optional !== true) {
    throw new UsageError(`collet ${name} needs ${missing.name}: ${missing.help}`)
  }
  const surplus = words[positionals.length]
  if (surplus === undefined || positionals.at(-1)?.many === true) return
  const suggestion = surplus.startsWith('-') ? suggestOption(surplus.slice(1), options) : ''
  throw new UsageError(`collet ${name} does not take "${surplus}".${suggestion}`)
}

export interface PositionalSpec {
  /** The name in the help: `TOOL`. */
  readonly name: string
  readonly optional?: true
  /** Takes all words that follow; only allowed for the last argument. */
  readonly many?: true
  readonly help: string
}

export interface CommandContext extends CliIo {
  readonly output: Output
  readonly json: boolean
}

export interface Command<Name extends string = string> {
  /** One or more words: `calls settle`. */
  readonly name: string
  /** One line, for the list of commands. */
  readonly summary: string
  /** Further lines for the command's own help. */
  readonly details?: readonly string[]
  readonly positionals?: readonly PositionalSpec[]
  readonly options: OptionSpecs<Name>
  readonly examples: readonly string[]
  /** Set for a command whose arguments and help follow the guidelines of another project. */
  readonly rawArgs?: {
    readonly help: string
    run(argv: readonly string[], context: CommandContext): Promise<ExitCode>
  }
  /** Returns nothing if all went well. */
  run(args: Arguments<Name>, context: CommandContext): Promise<ExitCode | undefined>
}

/** Returns the command unchanged; the type parameter makes `run` read declared options only. */
export function defineCommand<const Name extends string>(command: Command<Name>): Command<Name> {
  return command
}

export const COMMON_OPTIONS = {
  json: { help: 'Print JSON, for machines.' },
  help: { short: 'h', help: 'Show this help.' },
} as const satisfies OptionSpecs

/** Exit codes, which scripts rely on. */
export const EXIT = {
  ok: 0,
  /** The tool ran and failed, or a requested check failed. */
  toolFailed: 1,
  /** The command line, the configuration or the input is wrong. */
  usage: 2,
  /** The server or the store failed, or could not be reached. */
  server: 3,
  /** A usage error under the OpenTool guidelines, which define their own code (OTS-75). */
  opentoolUsage: 64,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export interface OptionSpec {
  /** Shown in the help as `--port N`; absent for a flag. */
  readonly value?: string
  readonly short?: string
  /** Marks the option as required in the help; the command itself reports that it is missing. */
  readonly required?: true
  readonly many?: true
  /** The value if the option is given without one. */
  readonly bareValue?: string
  readonly help: string
}

/** The range of `--port`; 0 means any free port. */
export const PORTS = { min: 0, max: 65_535 } as const

export type OptionSpecs<Name extends string = string> = Readonly<Record<Name, OptionSpec>>

/** Parsed arguments of a command; each method checks the value it returns. */
export class Arguments<Name extends string = string> {
  readonly positionals: readonly string[]
  /** The words after `--`, which are also positionals; absent without `--`. */
  readonly afterDashes: readonly string[] | undefined
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #flags: ReadonlySet<string>

  constructor(
    positionals: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    flags: ReadonlySet<string>,
    /** Number of positionals before `--`. */
    dashIndex?: number,
  ) {
    this.positionals = positionals
    this.afterDashes = dashIndex === undefined ? undefined : positionals.slice(dashIndex)
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

  /** These options as words of a command line, for a child process. */
  repeat(...names: readonly Name[]): string[] {
    return names.flatMap((name) =>
      this.flag(name) ? [`--${name}`] : this.texts(name).map((text) => `--${name}=${text}`),
    )
  }

  integer(name: Name, { min, max }: { readonly min: number; readonly max: number }): number | undefined {
    return this.#read(name, `a whole number from ${min} to ${max}`, (text) => {
      const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
      return number >= min && number <= max ? number : undefined
    })
  }

  /** A time (`2026-01-31`, `2026-01-31T10:00:00Z`) or an age (`90s`, `30m`, `12h`, `7d`). */
  moment(name: Name, nowMs: number): Date | undefined {
    const expected = 'a time like 2026-01-31 or 2026-01-31T10:00:00Z, or how long ago, like 30m, 12h or 7d'
    return this.#read(name, expected, (text) => validDate(ISO_TIME.test(text) ? text : nowMs - spanOf(text)))
  }

  /** An expiry time: a span from now (`90d`), or a time with its zone. */
  expiry(name: Name, nowMs: number): string | undefined {
    const expected = 'a span of time such as 12h or 90d, or a time with its zone such as 2027-01-31T00:00:00Z'
    return this.#read(name, expected, (text) =>
      validDate(ZONED_TIME.test(text) ? text : nowMs + boundedSpan(text))?.toISOString(),
    )
  }

  /** A span of time: `30m`, `12h`, `90d`. */
  spanMs(name: Name): number | undefined {
    return this.#read(name, 'a span of time such as 30m, 12h or 90d', boundedSpan)
  }

  oneOf<const Choice extends string>(name: Name, choices: readonly Choice[]): Choice | undefined {
    return this.#read(name, `one of ${choices.join(', ')}`, (text) => choices.find((known) => known === text))
  }

  #read<Value>(name: Name, expected: string, read: (text: string) => Value | undefined): Value | undefined {
    const text = this.text(name)
    const value = text === undefined ? undefined : read(text)
    if (text === undefined || (value !== undefined && !Number.isNaN(value))) return value
    throw new UsageError(`--${name} expects ${expected}; got "${text}".`)
  }
}

/** Matches ISO 8601 only; `Date` alone accepts more. */
const ISO_TIME = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2})?)?$/
const ZONED_TIME = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/
const UNIT_MS = new Map(Object.entries({ s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }))
const MAX_SPAN_MS = 10 * 366 * 86_400_000

/** Returns milliseconds, or `NaN` if the text is not a span of time. */
function spanOf(text: string): number {
  const [, amount = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  return Number(amount) * (UNIT_MS.get(unit) ?? Number.NaN)
}

function boundedSpan(text: string): number {
  const span = spanOf(text)
  return span <= MAX_SPAN_MS ? span : Number.NaN
}

function validDate(time: string | number): Date | undefined {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? undefined : date
}

/** An invalid command line. It ends the command with exit code 2 and a pointer to `--help`. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
