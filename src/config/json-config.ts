import { z } from 'zod'
import { CONFIG_SCHEMA } from './schema.ts'

type Variables = Readonly<Record<string, string | undefined>>

/** What a JSON config says, and what is wrong with its placeholders. */
interface JsonConfig {
  readonly config: unknown
  readonly problems: readonly { readonly where: string; readonly message: string }[]
}

/**
 * A config as JSON. `$schema` is for editors. `${env:NAME}` in a text is the environment variable, and
 * `${env:NAME:-other}` has a text for when that is not set; `$${` is a plain `${`. Throws what `JSON.parse` throws.
 */
export function readJsonConfig(text: string, variables: Variables): JsonConfig {
  const problems: { where: string; message: string }[] = []
  const fill = (value: unknown, where: string): unknown => {
    if (typeof value === 'string') {
      return value.replace(PLACEHOLDER, (written, escaped, name, other) => {
        if (escaped !== undefined) return '${'
        if (name === undefined) {
          problems.push({ where, message: `${written} is no placeholder. ${HOW}` })
          return ''
        }
        const found = variables[name] || other
        if (found === undefined) {
          problems.push({ where, message: `the environment variable ${name} is not set. ${otherwise(name)}` })
        }
        return found ?? ''
      })
    }
    if (Array.isArray(value)) return value.map((item, index) => fill(item, `${where}[${index}]`))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, fill(item, where === '' ? key : `${where}.${key}`)]),
    )
  }
  const filled = fill(JSON.parse(text), '')
  return { config: withoutSchema(filled), problems }
}

/** `$${`, `${env:NAME}`, `${env:NAME:-other}`, and whatever else begins so and is none of them. */
const PLACEHOLDER = /(\$\$\{)|\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?/g

const HOW = `Write \${env:NAME} for an environment variable, and $\${ where the text itself has \${.`

function otherwise(name: string): string {
  return `Set it, or write \${env:${name}:-TEXT} for what counts without it.`
}

function withoutSchema(config: unknown): unknown {
  if (typeof config !== 'object' || config === null || Array.isArray(config) || !('$schema' in config))
    return config
  const { $schema: _, ...rest } = config
  return rest
}

/** What only a module can say. */
const FUNCTIONS = ['hooks', 'approvals.when', 'approvals.perTool.when']

type Schema = { -readonly [Key in keyof z.core.JSONSchema.JSONSchema]: z.core.JSONSchema.JSONSchema[Key] }

/** A JSON Schema of JSON configs, for editors. `describe` has the words for a setting such as `server.port`. */
export function jsonConfigSchema(describe: (setting: string) => string | undefined): Schema {
  const schema: Schema = z.toJSONSchema(CONFIG_SCHEMA, { io: 'input', unrepresentable: 'any' })
  complete(schema, '', describe)
  schema.title = 'Collet'
  schema.properties = { $schema: { type: 'string' }, ...schema.properties }
  return schema
}

/** Goes through a schema with the name of the setting that each part is about. */
function complete(schema: Schema, setting: string, describe: (setting: string) => string | undefined): void {
  const said = describe(setting)
  if (said !== undefined) schema.description = said
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const path = setting === '' ? name : `${setting}.${name}`
    if (FUNCTIONS.includes(path)) delete schema.properties?.[name]
    else if (typeof member === 'object') complete(member, path, describe)
  }
  const { items, additionalProperties, anyOf = [], oneOf = [] } = schema
  for (const part of [items, additionalProperties, ...anyOf, ...oneOf].flat()) {
    // The words are with the whole; only what is inside of a part has words of its own.
    if (typeof part === 'object')
      complete(part, setting, (path) => (path === setting ? undefined : describe(path)))
  }
}
