import type { OptionSpec } from './arguments.ts'
import { COMMON_OPTIONS, type Command } from './command.ts'
import { renderTable } from './table.ts'

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

export function usageOf({ name, positionals, options }: Command): string {
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
