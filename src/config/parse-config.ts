import type { z } from 'zod'
import { LINE } from './closed-object.ts'
import { ConfigError, type ConfigProblem } from './config-error.ts'
import { CONFIG_SCHEMA, type ParsedConfig } from './config-schema.ts'

/** Checks a config and fills in its defaults; throws one `ConfigError` with every problem. */
export function parseConfig(config: unknown, file: string): ParsedConfig {
  const parsed = CONFIG_SCHEMA.safeParse(config, { error: explain })
  if (parsed.success) return parsed.data
  throw new ConfigError(parsed.error.issues.flatMap((issue) => toProblems(issue, file)))
}

function toProblems(issue: z.core.$ZodIssue, file: string): ConfigProblem[] {
  const where = pathText(issue.path)
  return issue.message
    .split(LINE)
    .map((message) => ({ severity: 'error', file, ...(where === '' ? {} : { where }), message }))
}

function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    return text === '' ? String(step) : `${text}.${String(step)}`
  }, '')
}

/** Words for the issues that the schema itself does not explain. Values are never repeated: they may be secrets. */
function explain(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue.expected, issue.input)
    case 'too_small':
      return issue.origin === 'string' ? 'must not be empty.' : `must be at least ${issue.minimum}.`
    case 'too_big':
      return `must be at most ${issue.maximum}.`
    case 'invalid_value':
      return `expected one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}.`
    case 'invalid_key':
      return 'a toolkit name has only letters, digits and "_".'
    default:
      return undefined
  }
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  undefined: 'nothing',
}

function wrongType(expected: string, input: unknown): string {
  const wanted = TYPE_NAMES[expected] ?? expected
  if (input === undefined)
    return `expected ${wanted}, got nothing. If it comes from an environment variable, is that set?`
  return `expected ${wanted}, got ${kindOf(input)}.`
}

function kindOf(input: unknown): string {
  if (input === null) return 'null'
  if (Array.isArray(input)) return 'a list'
  if (typeof input === 'number') return Number.isInteger(input) ? 'a number' : `${input}`
  return TYPE_NAMES[typeof input] ?? `a ${typeof input}`
}
