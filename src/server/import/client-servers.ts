import { basename, dirname, resolve, sep } from 'node:path'
import { parseEnv } from 'node:util'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { isOwnHeader } from '#sources/mcp/options'
import { parseJsonc } from './jsonc.ts'

/** An MCP server as a client's file lists it, its placeholders not filled in. */
export interface WrittenServer {
  /** What its owner calls it. */
  readonly name: string
  /** The file that lists it. */
  readonly file: string
  readonly entry: JsonObject
}

/** A value that the client asks its user for. */
interface AskedValue {
  readonly id: string
  readonly description: string
}

interface ServerList {
  readonly servers: readonly WrittenServer[]
  readonly asked: readonly AskedValue[]
}

/**
 * The servers that a client's file lists, under `mcpServers` or `servers`, for all projects or for the one in `folder`.
 * `undefined` for a text that is no such file.
 */
export function readServerList(text: string, file: string, folder: string): ServerList | undefined {
  const root = parseJsonc(text)
  if (!isJsonObject(root)) return undefined
  const { projects, mcp } = root
  const project = isJsonObject(projects) ? projects[folder] : undefined
  const lists = [project, root, mcp].flatMap((holder) =>
    isJsonObject(holder) ? [holder.mcpServers, holder.servers].filter(isJsonObject) : [],
  )
  if (lists.length === 0) return undefined
  const servers = lists.flatMap((list) =>
    Object.entries(list).flatMap(([name, entry]) => (isJsonObject(entry) ? [{ name, file, entry }] : [])),
  )
  const inputs = [root.inputs, isJsonObject(mcp) ? mcp.inputs : undefined].flatMap((list) => list ?? [])
  return { servers, asked: inputs.flatMap(askedValue) }
}

function askedValue(input: JsonValue): readonly AskedValue[] {
  if (!isJsonObject(input) || typeof input.id !== 'string') return []
  const { id, description } = input
  return [{ id, description: typeof description === 'string' ? description : id }]
}

/** What placeholders stand for. */
export interface PlaceholderValues {
  readonly home: string
  /** A variable of the environment. */
  variable(name: string): string | undefined
  /** What the client would ask its user for. */
  input(id: string): string | undefined
  /** The text of a file that the list names; for `envFile`. */
  readFile(file: string): string | undefined
  /** Whether an address is this server's own. */
  isOwnAddress(url: string): boolean
}

/** What an entry of a client's file is to us. */
type ServerReading =
  | { readonly kind: 'usable'; readonly options: JsonObject }
  /** Nothing to import, and why. */
  | { readonly kind: 'skipped'; readonly why: string }
  /** Something has to be done first. */
  | { readonly kind: 'unusable'; readonly why: string }

/** An entry as the options of a source, its placeholders filled in. */
export function readServer(
  { file, entry }: WrittenServer,
  folder: string,
  values: PlaceholderValues,
): ServerReading {
  if (entry.disabled === true || entry.enabled === false)
    return { kind: 'skipped', why: 'it is turned off there' }
  if (isOwn(entry, values)) return { kind: 'skipped', why: 'it is Collet itself' }
  const fill = new Placeholders(values, projectOf(file, folder))
  const url = textOf(entry.url) ?? textOf(entry.serverUrl) ?? textOf(entry.httpUrl)
  const command = textOf(entry.command)
  if (command === undefined && url === undefined)
    return { kind: 'unusable', why: 'it has neither a command nor a url' }
  const options = command === undefined ? fill.server(url ?? '', entry) : fill.program(command, entry)
  const { missing } = fill
  return missing.length === 0
    ? { kind: 'usable', options }
    : { kind: 'unusable', why: whatIsMissing(missing) }
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A file in a hidden folder of a project, or in the project itself, is about that; any other about where the user is. */
function projectOf(file: string, folder: string): string {
  if (basename(file) === '.mcp.json') return dirname(file)
  const holder = basename(dirname(file))
  const isOfProject = holder === '.vscode' || (holder === '.cursor' && dirname(dirname(file)) === folder)
  return isOfProject ? dirname(dirname(file)) : folder
}

/** `collet mcp`, however it is started, or our address: behind itself there would be no end. */
function isOwn(entry: JsonObject, { isOwnAddress }: PlaceholderValues): boolean {
  const { command, args, url, serverUrl } = entry
  const words = [command, ...(Array.isArray(args) ? args : []), url, serverUrl].map(String)
  return words.some((word, index) => {
    if (isOwnAddress(word)) return true
    const isProgram = /^collet(?:@[^/\\]*)?(?:\.(?:cmd|exe|js|ps1))?$/.test(
      basename(word.replaceAll('\\', '/')),
    )
    return isProgram && words[index + 1] === 'mcp'
  })
}

function whatIsMissing(missing: readonly Missing[]): string {
  const names = missing.map(({ name }) => `--env ${name}=VALUE`).join(' ')
  const which = missing.map(({ shown }) => shown).join(', ')
  return `${which} has no value here; set it, or import again with ${names}`
}

interface Missing {
  readonly shown: string
  readonly name: string
}

const PLACEHOLDER = /\$\{(?:(env|input):)?([^}:]+)(?::-([^}]*))?\}/g

/** Fills in the placeholders of one entry, and keeps which have no value. */
class Placeholders {
  readonly #values: PlaceholderValues
  readonly #folder: string
  readonly #missing = new Map<string, Missing>()

  constructor(values: PlaceholderValues, folder: string) {
    this.#values = values
    this.#folder = folder
  }

  get missing(): readonly Missing[] {
    return [...this.#missing.values()]
  }

  program(command: string, { args, env, envFile, cwd }: JsonObject): JsonObject {
    const folder = textOf(cwd)
    const variables = { ...this.#fromFile(textOf(envFile)), ...this.#texts(env) }
    return {
      type: 'mcp',
      command: this.#word(command),
      ...(Array.isArray(args) && args.length > 0
        ? { args: args.map((word) => this.#word(String(word))) }
        : {}),
      ...(Object.keys(variables).length === 0 ? {} : { env: variables }),
      cwd: folder === undefined ? this.#folder : resolve(this.#folder, this.#word(folder)),
    }
  }

  server(url: string, { headers }: JsonObject): JsonObject {
    const sent = Object.entries(this.#texts(headers)).filter(([name]) => !isOwnHeader(name))
    return {
      type: 'mcp',
      url: this.#text(url),
      ...(sent.length === 0 ? {} : { headers: Object.fromEntries(sent) }),
    }
  }

  #texts(values: JsonValue | undefined): Readonly<Record<string, string>> {
    if (!isJsonObject(values)) return {}
    return Object.fromEntries(
      Object.entries(values).flatMap(([name, value]) =>
        value === null ? [] : [[name, this.#text(typeof value === 'string' ? value : JSON.stringify(value))]],
      ),
    )
  }

  #fromFile(file: string | undefined): Readonly<Record<string, string>> {
    if (file === undefined) return {}
    const path = resolve(this.#folder, this.#word(file))
    const text = this.#values.readFile(path)
    if (text === undefined) this.#missing.set(path, { shown: `the file ${path}`, name: 'NAME' })
    const pairs = Object.entries(parseEnv(text ?? ''))
    return Object.fromEntries(pairs.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  }

  /** A value that must be whole. */
  #text(text: string): string {
    return this.#fill(text, true)
  }

  /** A word of a command line: `${X}` may be meant for a shell there. */
  #word(text: string): string {
    return this.#fill(text, false)
  }

  #fill(text: string, isWhole: boolean): string {
    return text.replace(PLACEHOLDER, (shown, kind: string | undefined, name: string, otherwise?: string) => {
      const value = this.#valueOf(kind, name) ?? otherwise
      if (value === undefined && (isWhole || kind !== undefined)) this.#missing.set(shown, { shown, name })
      return value ?? shown
    })
  }

  #valueOf(kind: string | undefined, name: string): string | undefined {
    if (kind === 'input') return this.#values.input(name)
    if (kind === 'env') return this.#values.variable(name)
    switch (name) {
      case 'workspaceFolder':
        return this.#folder
      case 'workspaceFolderBasename':
        return basename(this.#folder)
      case 'userHome':
        return this.#values.home
      case 'pathSeparator':
      case '/':
        return sep
      default:
        return this.#values.variable(name)
    }
  }
}
