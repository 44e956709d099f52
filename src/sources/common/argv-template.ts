import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/base/json'

/**
 * Command lines with parameters. The command source checks them when it reads its options, and fills them in for each call.
 * Invariant: the value of a parameter never becomes an option (OWP-87).
 */

/**
 * One element of a command line: text, with at most one `{parameter}` at its end; several elements that are present only
 * together with their parameter; or a flag for a parameter that is true.
 */
export const ARGV_PART = z.union([
  z.string(),
  z.array(z.string()).min(2),
  z.strictObject({ flag: z.string().min(1), when: z.string().min(1) }),
])
export type ArgvPart = z.output<typeof ARGV_PART>

const NAME = '[A-Za-z_][A-Za-z0-9_-]*'
const ESCAPED = new RegExp(`\\{\\{(${NAME})\\}\\}`, 'g')
const PLACEHOLDER = new RegExp(`\\{(${NAME})\\}`, 'g')
/** Marks an escaped brace. This character cannot occur in an argument. */
const MARK = '\0'

type Element =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'placeholder'; readonly prefix: string; readonly name: string }
  | { readonly kind: 'wrong'; readonly problem: string }

function readElement(text: string): Element {
  if (text.includes(MARK)) return { kind: 'wrong', problem: 'an argument cannot contain a NUL character.' }
  const masked = text.replace(ESCAPED, `${MARK}$1${MARK}`)
  const found = [...masked.matchAll(PLACEHOLDER)]
  const [first] = found
  if (first === undefined)
    return { kind: 'literal', text: masked.replace(/\0([^\0]*)\0/g, (_, name: string) => `{${name}}`) }
  const name = first[1] ?? ''
  if (found.length > 1 || first.index + first[0].length !== masked.length)
    return {
      kind: 'wrong',
      problem: `"${text}": an element may have one {parameter}, at its end.`,
    }
  const prefix = masked.slice(0, first.index).replaceAll(MARK, '')
  // Without "=" the value could complete the name of an option, or add options.
  if (prefix.startsWith('-') && !prefix.includes('=')) {
    const problem = `"${text}": write "${prefix}={${name}}", or the option and {${name}} as two elements.`
    return { kind: 'wrong', problem }
  }
  return { kind: 'placeholder', prefix, name }
}

/** The problems with a command line, for the operator. */
export function problemsOfArgv(argv: readonly ArgvPart[]): readonly string[] {
  const [program] = argv
  const first =
    typeof program === 'string' && program !== '' && readElement(program).kind === 'literal'
      ? []
      : ['the first element must be the program: a name or path, without a parameter.']
  return [...first, ...argv.flatMap(problemsOfPart)]
}

function problemsOfPart(part: ArgvPart): readonly string[] {
  const elements = elementsOf(part)
  const wrong = elements.flatMap((element) => (element.kind === 'wrong' ? [element.problem] : []))
  const parameters = elements.filter(({ kind }) => kind === 'placeholder').length
  return Array.isArray(part) && parameters !== 1
    ? [...wrong, `${JSON.stringify(part)}: a group of elements must have exactly one {parameter}.`]
    : wrong
}

/** The elements of a part; none for a flag. */
function elementsOf(part: ArgvPart): readonly Element[] {
  if (typeof part === 'string') return [readElement(part)]
  return Array.isArray(part) ? part.map(readElement) : []
}

export function parametersOf(argv: readonly ArgvPart[]): ReadonlySet<string> {
  return new Set(
    argv.flatMap((part) =>
      typeof part === 'object' && 'flag' in part ? part.when : namesIn(elementsOf(part)),
    ),
  )
}

function namesIn(elements: readonly Element[]): readonly string[] {
  return elements.flatMap((element) => (element.kind === 'placeholder' ? [element.name] : []))
}

/** Parameters whose value is a whole element, which the program could interpret as an option. */
export function exposedParameters(argv: readonly ArgvPart[]): ReadonlySet<string> {
  const end = argv.indexOf('--')
  const elements = (end === -1 ? argv : argv.slice(0, end)).flatMap(elementsOf)
  return new Set(
    namesIn(elements.filter((element) => element.kind === 'placeholder' && element.prefix === '')),
  )
}

/** A value that cannot become an argument. */
export class BadArgument extends Error {
  override readonly name = 'BadArgument'
  readonly parameter: string

  constructor(parameter: string, message: string) {
    super(message)
    this.parameter = parameter
  }
}

/** The command line of one call, program first. Throws `BadArgument` for a value that would be an option (OWP-87). */
export function expandArgv(argv: readonly ArgvPart[], input: JsonObject): readonly string[] {
  const exposed = exposedParameters(argv)
  return argv.flatMap((part) => expandPart(part, input, exposed))
}

function expandPart(part: ArgvPart, input: JsonObject, exposed: ReadonlySet<string>): readonly string[] {
  if (typeof part === 'object' && 'flag' in part)
    return memberOf(input, part.when) === true ? [part.flag] : []
  const elements = elementsOf(part)
  const [name] = namesIn(elements)
  const values =
    name === undefined ? [''] : textsOf(memberOf(input, name)).map((text) => checked(name, text, exposed))
  return values.flatMap((value) =>
    elements.map((element) => {
      if (element.kind === 'literal') return element.text
      return element.kind === 'placeholder' ? element.prefix + value : ''
    }),
  )
}

function checked(name: string, text: string, exposed: ReadonlySet<string>): string {
  if (text.includes('\0')) throw new BadArgument(name, `${name} must not contain a NUL character.`)
  if (text.startsWith('-') && exposed.has(name)) {
    throw new BadArgument(
      name,
      `${name} must not begin with "-", because the command would interpret it as an option.`,
    )
  }
  return text
}

/** The arguments for a value: several for a list, none for `null`. */
function textsOf(value: JsonValue | undefined): readonly string[] {
  if (value === undefined || value === null) return []
  return (Array.isArray(value) ? value : [value]).map(textOf)
}

export function textOf(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function memberOf(input: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(input, name) ? input[name] : undefined
}
