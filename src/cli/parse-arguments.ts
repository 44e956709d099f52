import { parseArgs } from 'node:util'
import { didYouMean } from '#core/nearest-name'
import { Arguments, type OptionSpec } from './arguments.ts'
import { COMMON_OPTIONS, type Command } from './command.ts'
import { UsageError } from './usage-error.ts'

export interface ParsedArguments {
  readonly args: Arguments
  readonly help: boolean
  readonly json: boolean
}

/** Checks what follows a command's name against what the command takes. */
export function parseArguments(command: Command, argv: readonly string[]): ParsedArguments {
  const specs = new Map<string, OptionSpec>(Object.entries({ ...command.options, ...COMMON_OPTIONS }))
  const { tokens } = parseArgs({
    args: argv.map(hideDash),
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries([...specs].map(([name, spec]) => [name, parserOption(spec)])),
  })
  const values = new Map<string, string[]>()
  const flags = new Set<string>()
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(showDash(token.value))
    if (token.kind === 'option') readOption(token, specs, values, flags)
  }
  const help = flags.has('help')
  if (!help) checkPositionals(command, positionals, specs.keys())
  return { args: new Arguments(positionals, values, flags), help, json: flags.has('json') }
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
