import { z } from 'zod'
import { CONFIG_SCHEMA } from './schema.ts'

/*
 * JSON configs: placeholders for environment variables, and the JSON Schema for editors.
 * Used by the loader and by the build.
 * Invariant: a placeholder is filled before the config is checked, and a missing variable is a problem, not an empty string.
 */

export type Variables = Readonly<Record<string, string | undefined>>

/**
 * Reads a config as JSON, and reports the problems of its placeholders. `$schema`, which is for editors, is removed. `${env:NAME}`
 * in a string is replaced by the environment variable, and `${env:NAME:-other}` by `other` if the variable is not set; `$${` is a
 * literal `${`. A value that is nothing but a placeholder may stand for a number, or for true or false. Throws what `JSON.parse`
 * throws.
 */
export function readJsonConfig(text: string, variables: Variables) {
  const problems: { where: string; message: string }[] = []
  const filledTexts: FilledText[] = []
  const fillText = (written: string, where: string): string =>
    written.replace(PLACEHOLDER, (part, escaped, name, other) => {
      if (escaped !== undefined) return '${'
      if (name === undefined) {
        problems.push({ where, message: `${part} is not a placeholder. ${HOW}` })
        return ''
      }
      const found = (Object.hasOwn(variables, name) ? variables[name] : undefined) || other
      if (found === undefined) problems.push({ where, message: notSet(name) })
      return found ?? ''
    })
  const fill = (value: unknown, where: string): unknown => {
    if (typeof value === 'string') return fillText(value, where)
    if (typeof value !== 'object' || value === null) return value
    const isList = Array.isArray(value)
    const members = Object.entries(value).map(([key, item]): [string, unknown] => {
      const path = isList ? `${where}[${key}]` : where === '' ? key : `${where}.${key}`
      return [key, fill(item, path)]
    })
    const filled: Record<string, unknown> | unknown[] = isList
      ? members.map(([, item]) => item)
      : Object.fromEntries(members)
    for (const [key, item] of Object.entries(value)) {
      if (typeof item === 'string' && WHOLE.test(item)) filledTexts.push({ holder: filled, key })
    }
    return filled
  }
  const config = withoutSchema(fill(JSON.parse(text), ''))
  if (problems.length === 0) convertFilledTexts(config, filledTexts)
  return { config, problems }
}

/** A value that was a placeholder and nothing else. */
interface FilledText {
  readonly holder: object
  readonly key: string
}

/** Converts filled strings to numbers or booleans if the schema expects them. */
function convertFilledTexts(config: unknown, filled: readonly FilledText[]): void {
  if (filled.length === 0) return
  for (const issue of CONFIG_SCHEMA.safeParse(config).error?.issues ?? []) {
    if (issue.code !== 'invalid_type') continue
    const holder = issue.path.slice(0, -1).reduce<unknown>(memberOf, config)
    const key = String(issue.path.at(-1))
    const target = filled.find((text) => text.holder === holder && text.key === key)
    const value = convertText(issue.expected, memberOf(holder, key))
    if (target !== undefined && value !== undefined) Reflect.set(target.holder, key, value)
  }
}

function memberOf(holder: unknown, key: PropertyKey): unknown {
  return typeof holder === 'object' && holder !== null ? Reflect.get(holder, key) : undefined
}

function convertText(expected: string, text: unknown): number | boolean | undefined {
  if (typeof text !== 'string') return undefined
  if (expected === 'boolean') return text === 'true' ? true : text === 'false' ? false : undefined
  return /^(?:number|int)$/.test(expected) && /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined
}

/** `$${`, `${env:NAME}`, `${env:NAME:-other}`, and malformed placeholders. */
const PLACEHOLDER = /(\$\$\{)|\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?/g

const HOW = `Write \${env:NAME} for an environment variable, and $\${ where the text itself has \${.`

/** A value that is one placeholder. */
const WHOLE = /^\$\{env:[^}]*\}$/

function notSet(name: string): string {
  return `the environment variable ${name} is not set, or is empty. Set it, or write \${env:${name}:-TEXT} to use TEXT instead.`
}

function withoutSchema(config: unknown): unknown {
  if (typeof config !== 'object' || config === null || Array.isArray(config) || !('$schema' in config))
    return config
  const { $schema: _, ...rest } = config
  return rest
}

/** Settings that are functions, so only a config that is a module can have them. */
const FUNCTIONS = ['hooks', 'search.embed', 'approvals.when', 'approvals.perTool.when']

type Schema = { -readonly [Key in keyof z.core.JSONSchema.JSONSchema]: z.core.JSONSchema.JSONSchema[Key] }

/** A JSON Schema of JSON configs, for editors. `describe` returns the text of a setting, for example `server.port`. */
export function jsonConfigSchema(describe: (setting: string) => string | undefined): Schema {
  const schema: Schema = z.toJSONSchema(CONFIG_SCHEMA, { io: 'input', unrepresentable: 'any' })
  complete(schema, '', describe)
  schema.title = 'Collet'
  schema.properties = { $schema: { type: 'string' }, ...schema.properties }
  return schema
}

function complete(schema: Schema, setting: string, describe: (setting: string) => string | undefined): void {
  const description = describe(setting)
  if (description !== undefined) schema.description = description
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const path = setting === '' ? name : `${setting}.${name}`
    if (FUNCTIONS.includes(path)) delete schema.properties?.[name]
    else if (typeof member === 'object') complete(member, path, describe)
  }
  const { items, additionalProperties, anyOf = [], oneOf = [] } = schema
  for (const part of [items, additionalProperties, ...anyOf, ...oneOf].flat()) {
    // The union as a whole has the description; its parts have none, only their members do.
    if (typeof part === 'object')
      complete(part, setting, (path) => (path === setting ? undefined : describe(path)))
  }
}
