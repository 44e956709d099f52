import { basename, dirname, resolve, sep } from 'node:path'
import { parseEnv } from 'node:util'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { isLoopback } from '#server/safety'
import { isOwnHeader } from '#sources/mcp/options'
import type { WrittenServer } from './client-files.ts'

/**
 * Converts entries of MCP clients to options of a source, for `collet import --from` and the search for bypasses.
 * Invariant: `describeServer` only describes what an entry would start, reach and read; `readServer` fills in its
 * placeholders, which requires the user's consent first.
 */

/** Members in which clients write an address, by precedence. */
const ADDRESS_MEMBERS = ['url', 'serverUrl', 'httpUrl', 'uri'] as const

/** Converts the entry of any client to one form. */
function plainEntry(entry: JsonObject) {
  const tokenVariable = textOf(entry.bearer_token_env_var)
  return {
    ...commandOf(entry),
    url: ADDRESS_MEMBERS.map((name) => textOf(entry[name])).find((text) => text !== undefined),
    env: {
      ...inheritedVariables(entry.env_keys),
      ...inheritedVariables(entry.env_vars),
      ...objectOf(entry.environment),
      ...objectOf(entry.envs),
      ...(isJsonObject(entry.command) ? objectOf(entry.command.env) : {}),
      ...objectOf(entry.env),
    },
    headers: {
      ...objectOf(entry.headers),
      ...objectOf(entry.http_headers),
      ...Object.fromEntries(
        Object.entries(objectOf(entry.env_http_headers)).map(([name, variable]) => [
          name,
          `\${env:${String(variable)}}`,
        ]),
      ),
      ...(tokenVariable === undefined ? {} : { Authorization: `Bearer \${env:${tokenVariable}}` }),
    },
    envFile: textOf(entry.envFile),
    cwd: textOf(entry.cwd) ?? textOf(entry.workingDirectory),
  }
}

/** Reads `command` and `args`, a list in one member (OpenCode), an object (older Zed), or `cmd` (Goose). */
function commandOf({ command, cmd, args }: JsonObject): { command: string | undefined; args: string[] } {
  const words = Array.isArray(args) ? args.map(String) : []
  if (Array.isArray(command)) {
    const [program, ...rest] = command.map(String)
    return { command: textOf(program), args: [...rest, ...words] }
  }
  if (isJsonObject(command)) return commandOf({ command: command.path ?? null, args: command.args ?? [] })
  return { command: textOf(command) ?? textOf(cmd), args: words }
}

/** Variables that the client passes on from its own environment. */
function inheritedVariables(names: JsonValue | undefined): JsonObject {
  const texts = Array.isArray(names) ? names.map((name) => (isJsonObject(name) ? name.name : name)) : []
  return Object.fromEntries(
    texts.flatMap((name) => (typeof name === 'string' ? [[name, `\${env:${name}}`]] : [])),
  )
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {}
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export interface PlaceholderValues {
  readonly home: string
  variable(name: string): string | undefined
  /** A value that the client would ask its user for. */
  input(id: string): string | undefined
  /** The text of a file that the entry names as its `envFile`. */
  readFile(file: string): string | undefined
}

type Unusable = { readonly kind: 'skipped' | 'unusable'; readonly why: string }

/** What an entry would do; its placeholders are not filled in. */
export interface ServerPlan {
  /** The command line, or the address. */
  readonly target: string
  readonly isProgram: boolean
  /** Environment variables whose values would be filled in. */
  readonly variables: readonly string[]
  /** Values that the user would be asked for. */
  readonly inputs: readonly string[]
  /** The variables and headers that the entry sets itself; without the value if the name looks like a credential. */
  readonly sets: readonly { readonly name: string; readonly value?: string }[]
  /** Names of variables and headers that look like credentials and are in the file in clear text. */
  readonly clear: readonly string[]
  readonly envFile: string | undefined
  readonly cwd: string | undefined
}

/** What an entry would start or reach, or why it is left out. */
export function describeServer(
  { entry }: Pick<WrittenServer, 'entry'>,
  isOwnAddress: (url: string) => boolean,
): ServerPlan | Unusable {
  if (entry.disabled === true || entry.enabled === false)
    return { kind: 'skipped', why: 'it is turned off in the client' }
  if (isCollet(entry, isOwnAddress)) return { kind: 'skipped', why: 'it is Collet itself' }
  const { command, args, url, env, headers, envFile, cwd } = plainEntry(entry)
  if (command === undefined && url === undefined)
    return { kind: 'unusable', why: 'it has neither a command nor a url' }
  const values: JsonObject = command === undefined ? headers : env
  const words = command === undefined ? [] : [command, ...args, cwd ?? '', envFile ?? '']
  const texts = [...(command === undefined ? [url ?? ''] : []), ...Object.values(values).map(valueText)]
  const named = [
    ...words.flatMap(placeholdersOf).filter(({ form }) => form !== 'bare'),
    ...texts.flatMap(placeholdersOf),
  ]
  const distinct = (kind: 'input' | 'env'): string[] => [
    ...new Set(named.filter((each) => each.kind === kind).map(({ name }) => name)),
  ]
  return {
    target: command === undefined ? (url ?? '') : [command, ...args].map(quotedWord).join(' '),
    isProgram: command !== undefined,
    variables: distinct('env'),
    inputs: distinct('input'),
    sets: Object.entries(values).map(([name, value]) =>
      SECRET_NAME.test(name) ? { name } : { name, value: quotedWord(valueText(value)) },
    ),
    clear: Object.entries(values).flatMap(([name, value]) => (isClearSecret(name, value) ? [name] : [])),
    envFile: command === undefined ? undefined : envFile,
    cwd: command === undefined ? undefined : cwd,
  }
}

const SECRET_NAME = /key|token|secret|passw|auth|credential|cookie/i

function isClearSecret(name: string, value: JsonValue): boolean {
  return (
    SECRET_NAME.test(name) && typeof value === 'string' && value !== '' && placeholdersOf(value).length === 0
  )
}

function valueText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function quotedWord(word: string): string {
  return word === '' || /\s/.test(word) ? JSON.stringify(word) : word
}

/** Recognises `collet mcp` and this server's own address: importing either would create an endless loop. */
function isCollet(entry: JsonObject, isOwnAddress: (url: string) => boolean): boolean {
  const { command, args } = commandOf(entry)
  const words = [command ?? '', ...args]
  const addresses = ADDRESS_MEMBERS.map((name) => textOf(entry[name]) ?? '')
  return (
    [...addresses, ...words].some(isOwnAddress) ||
    words.some((word, index) => word === 'mcp' && isColletProgram(words.slice(0, index)))
  )
}

/** Recognises the MCP address of the server on this port of this machine. */
export function isOwnMcpAddress(port: number): (text: string) => boolean {
  return (text) => {
    const url = URL.parse(text)
    return (
      url !== null && isLoopback(url.hostname) && Number(url.port) === port && url.pathname.startsWith('/mcp')
    )
  }
}

/** Recognises the launcher of a package or a checkout, and the command that a checkout's launcher runs: `node --conditions=collet-source … main.ts`. */
function isColletProgram(words: readonly string[]): boolean {
  const path = words.at(-1)?.replaceAll('\\', '/') ?? ''
  if (/^collet(?:@[^/]*)?(?:\.(?:cmd|exe|js|ps1))?$/.test(basename(path))) return true
  return words.includes('--conditions=collet-source') && path.endsWith('/src/cli/main.ts')
}

/** Options with their placeholders filled in; `why` names the placeholders without a value. */
type ServerReading =
  | { readonly kind: 'usable'; readonly options: JsonObject }
  | { readonly kind: 'unusable'; readonly options: JsonObject; readonly why: string }

export function readServer(
  { file, entry }: Pick<WrittenServer, 'file' | 'entry'>,
  folder: string,
  values: PlaceholderValues,
): ServerReading {
  const { command, args, url = '', env, headers, envFile, cwd } = plainEntry(entry)
  const project = projectOf(file, folder)
  const missing = new Map<string, string>()
  /** Every placeholder in a text needs a value; in a word of a command line `${X}` may be for a shell. */
  const fill = (kind: 'text' | 'word') => (written: string) =>
    written.replace(PLACEHOLDER, (...match: (string | undefined)[]) => {
      const shown = match[0] ?? ''
      const placeholder = placeholderOf(match)
      const { name, form, defaultValue } = placeholder
      if (form === 'bare' && kind === 'word') return shown
      const value = placeholderValue(placeholder, values, project) ?? defaultValue
      if (value === undefined && (form === 'explicit' || (form === 'braced' && kind === 'text')))
        missing.set(shown, name)
      return value ?? shown
    })
  const [text, word] = [fill('text'), fill('word')]
  const texts = (written: JsonObject) =>
    Object.entries(written).flatMap(([name, value]) =>
      value === null ? [] : [[name, text(valueText(value))] as const],
    )
  const fromFile = (name: string) => {
    const path = resolve(project, word(name))
    const read = values.readFile(path)
    if (read === undefined) missing.set(`the file ${path}`, 'NAME')
    return Object.entries(parseEnv(read ?? '')).flatMap(([each, value]) =>
      value === undefined ? [] : [[each, value] as const],
    )
  }
  const program = (name: string): JsonObject => {
    // Variables of the entry take precedence over those of its file.
    const variables = [...(envFile === undefined ? [] : fromFile(envFile)), ...texts(env)]
    return {
      type: 'mcp',
      command: word(name),
      ...(args.length > 0 && { args: args.map(word) }),
      ...(variables.length > 0 && { env: Object.fromEntries(variables) }),
      cwd: cwd === undefined ? project : resolve(project, word(cwd)),
    }
  }
  const server = (): JsonObject => {
    const sent = texts(headers).filter(([name]) => !isOwnHeader(name))
    return { type: 'mcp', url: text(url), ...(sent.length > 0 && { headers: Object.fromEntries(sent) }) }
  }
  const options = command === undefined ? server() : program(command)
  return missing.size === 0
    ? { kind: 'usable', options }
    : { kind: 'unusable', options, why: whatIsMissing(missing) }
}

function placeholderValue(
  { kind, name, form }: Placeholder,
  values: PlaceholderValues,
  project: string,
): string | undefined {
  if (kind !== 'env') return values.input(name)
  const folderOf = form === 'explicit' ? undefined : FOLDER_PLACEHOLDERS.get(name)
  return folderOf === undefined ? values.variable(name) : folderOf(project, values.home)
}

/** The project that a file belongs to; for a user's file, the working folder. */
function projectOf(file: string, folder: string): string {
  if (basename(file) === '.mcp.json') return dirname(file)
  const holder = basename(dirname(file))
  const isOfProject = holder === '.vscode' || (holder === '.cursor' && dirname(dirname(file)) === folder)
  return isOfProject ? dirname(dirname(file)) : folder
}

/** `missing` maps the text of each placeholder to the name of its variable. */
function whatIsMissing(missing: ReadonlyMap<string, string>): string {
  const names = [...missing.values()].map((name) => `--env ${name}=VALUE`).join(' ')
  const which = [...missing.keys()].join(', ')
  const advice = missing.size === 1 ? 'has no value here; set it' : 'have no value here; set them'
  return `${which} ${advice}, or import again with ${names}`
}

/** `${NAME}`, `${env:NAME}`, `${input:ID}`, each with a default after `:-`; `{env:NAME}` of OpenCode; `$NAME` of Gemini CLI. */
const PLACEHOLDER =
  /\$\{\s*(?:(env|input):)?([^}:]+?)\s*(?::-([^}]*))?\}|\{(env|file):([^}]+)\}|\$([A-Z_][A-Z0-9_]{2,})/g

/** Placeholders for folders, by name. */
const FOLDER_PLACEHOLDERS = new Map<string, (project: string, home: string) => string>([
  ['workspaceFolder', (project) => project],
  ['workspaceFolderBasename', (project) => basename(project)],
  ['userHome', (_, home) => home],
  ['pathSeparator', () => sep],
  ['/', () => sep],
])

interface Placeholder {
  readonly kind: 'env' | 'input' | 'file'
  readonly name: string
  /** `bare`: `$NAME`, which may be for a shell if it is in an argument; `explicit`: certainly a placeholder. */
  readonly form: 'bare' | 'braced' | 'explicit'
  readonly defaultValue: string | undefined
}

function placeholderOf(match: readonly (string | undefined)[]): Placeholder {
  const [, kind, name, defaultValue, otherKind, otherName, bareName] = match
  if (otherKind !== undefined)
    return {
      kind: otherKind === 'file' ? 'file' : 'env',
      name: otherName ?? '',
      form: 'explicit',
      defaultValue: undefined,
    }
  const form = bareName !== undefined ? 'bare' : kind === undefined ? 'braced' : 'explicit'
  return { kind: kind === 'input' ? 'input' : 'env', name: name ?? bareName ?? '', form, defaultValue }
}

/** The placeholders in a text, except those for folders of the project and the user. */
function placeholdersOf(text: string): readonly Placeholder[] {
  return [...text.matchAll(PLACEHOLDER)]
    .map(placeholderOf)
    .filter(({ name }) => !FOLDER_PLACEHOLDERS.has(name))
}
