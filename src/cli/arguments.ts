import { UsageError } from './usage-error.ts'

/** One `--option` of a command. */
export interface OptionSpec {
  /** Shown in help as `--port N`; absent = a flag without a value. */
  readonly value?: string
  readonly short?: string
  /** The command does not work without it; the command itself says so in its own words. */
  readonly required?: true
  /** May be given several times. */
  readonly many?: true
  readonly help: string
}

export type OptionSpecs<Name extends string = string> = Readonly<Record<Name, OptionSpec>>

/** A command's parsed arguments; reading one checks it. */
export class Arguments<Name extends string = string> {
  readonly positionals: readonly string[]
  readonly #values: ReadonlyMap<string, readonly string[]>
  readonly #flags: ReadonlySet<string>

  constructor(
    positionals: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    flags: ReadonlySet<string>,
  ) {
    this.positionals = positionals
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

  oneOf<const Choice extends string>(name: Name, choices: readonly Choice[]): Choice | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const choice = choices.find((known) => known === text)
    if (choice !== undefined) return choice
    throw new UsageError(`--${name} expects one of ${choices.join(', ')}; got "${text}".`)
  }
}
