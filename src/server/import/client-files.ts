import { readFileSync, statSync } from 'node:fs'
import { extname } from 'node:path'
import { isMap, parseDocument } from 'yaml'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { parseJsonc, removeJsoncMember, setJsoncMember } from './jsonc.ts'
import { parseToml, renderTomlTable } from './toml.ts'

/**
 * Reads and edits the files in which MCP clients list their servers: JSON with comments, TOML or YAML. `collet import
 * --from`, `collet connect` and the search for bypasses use it. Invariant: an edit changes one entry and keeps the
 * rest of the text; no server is started and no placeholder is filled in.
 */

/** An MCP server as a client's file lists it, with its placeholders. */
export interface WrittenServer {
  readonly name: string
  readonly file: string
  /** The names of the members that lead to the entry in the file. */
  readonly path: readonly string[]
  readonly entry: JsonObject
}

const MAX_FILE_BYTES = 16 * 1024 * 1024

/** The text of a file; `undefined` if it does not exist, is not a regular file, or is too large for settings. */
export function readSettingsFile(file: string): string | undefined {
  try {
    const stat = statSync(file)
    return stat.isFile() && stat.size <= MAX_FILE_BYTES ? readFileSync(file, 'utf8') : undefined
  } catch {
    return undefined
  }
}

/** Parses a settings file in the format of its extension; `undefined` if that fails. */
export function parseSettings(text: string, file: string): JsonObject | undefined {
  const value = parseAs(formatOf(file), text)
  return isJsonObject(value) ? value : undefined
}

type Format = 'json' | 'toml' | 'yaml'

function formatOf(file: string): Format {
  const end = extname(file).toLowerCase()
  if (end === '.toml') return 'toml'
  return end === '.yaml' || end === '.yml' ? 'yaml' : 'json'
}

function parseAs(format: Format, text: string): JsonValue | undefined {
  if (format === 'json') return parseJsonc(text)
  if (format === 'toml') return parseToml(text)?.root
  const document = parseDocument(text, { logLevel: 'silent' })
  if (document.errors.length > 0 || !isMap(document.contents)) return undefined
  const value: JsonValue = document.toJS({ maxAliasCount: 100 })
  return value
}

/** Members under which clients keep their servers; each is tried at the root. */
const LISTS = ['mcpServers', 'servers', 'context_servers', 'mcp_servers'] as const

/**
 * The servers in a client's file, for all projects or for the project in `folder`, and the values that the client asks its user for.
 * `undefined` if the file has no list of servers.
 */
export function readServerList(text: string, file: string, folder: string) {
  const root = parseSettings(text, file)
  if (root === undefined) return undefined
  const { projects, mcp, extensions } = root
  const holders: readonly (readonly [readonly string[], JsonValue | undefined])[] = [
    ...(isJsonObject(projects) ? [[['projects', folder], projects[folder]] as const] : []),
    [[], root],
    [['mcp'], mcp],
  ]
  const lists = holders.flatMap(([path, holder]) =>
    isJsonObject(holder)
      ? LISTS.flatMap((name) =>
          isJsonObject(holder[name]) ? [{ path: [...path, name], list: holder[name] }] : [],
        )
      : [],
  )
  const typed = [
    { path: ['mcp'], list: onlyTyped(mcp, ['local', 'remote']) },
    { path: ['extensions'], list: onlyTyped(extensions, ['stdio', 'streamable_http', 'sse']) },
  ].filter(({ list }) => Object.keys(list).length > 0)
  if (lists.length === 0 && typed.length === 0) return undefined
  const servers = [...lists, ...typed].flatMap(({ path, list }) =>
    Object.entries(list).flatMap(([name, entry]): readonly WrittenServer[] =>
      isJsonObject(entry) ? [{ name, file, path: [...path, name], entry }] : [],
    ),
  )
  const inputs = [root.inputs, isJsonObject(mcp) ? mcp.inputs : undefined].flatMap((list) => list ?? [])
  const asked = inputs.flatMap((input) => {
    if (!isJsonObject(input) || typeof input.id !== 'string') return []
    const { id, description } = input
    return { id, description: typeof description === 'string' ? description : id }
  })
  return { servers, asked }
}

/** These lists also contain other entries; servers are recognised by their type. */
function onlyTyped(list: JsonValue | undefined, types: readonly string[]): JsonObject {
  if (!isJsonObject(list)) return {}
  return Object.fromEntries(
    Object.entries(list).filter(
      ([, entry]) => isJsonObject(entry) && typeof entry.type === 'string' && types.includes(entry.type),
    ),
  )
}

/** The text of a file that contains only this entry. */
export function renderEntry(format: Format, path: readonly string[], entry: JsonObject): string {
  if (format === 'toml') return renderTomlTable(path, entry).trimEnd()
  const whole = path.reduceRight<JsonObject>((inner, name) => ({ [name]: inner }), entry)
  return format === 'json'
    ? JSON.stringify(whole, undefined, 2)
    : yamlText(parseDocument(''), path, entry).trimEnd()
}

/** Adds or replaces an entry; `undefined` if that cannot be done safely. */
export function withEntry(
  text: string,
  file: string,
  { path, entry }: { readonly path: readonly string[]; readonly entry: JsonObject },
): string | undefined {
  const format = formatOf(file)
  const before = text.trim() === '' ? {} : parseAs(format, text)
  if (!isJsonObject(before)) return undefined
  if (canonicalJson(valueAt(before, path) ?? null) === canonicalJson(entry)) return text
  return verified(edit(), format, withMember(before, path, entry))

  function edit(): string | undefined {
    if (format === 'json') return setJsoncMember(text.trim() === '' ? '{}\n' : text, path, entry)
    if (format === 'yaml') return yamlText(parseDocument(text), path, entry)
    const rest = withoutTables(text, path) ?? text
    const gap = rest === '' || rest.endsWith('\n\n') ? '' : rest.endsWith('\n') ? '\n' : '\n\n'
    return `${rest}${gap}${renderTomlTable(path, entry)}`
  }
}

/** Removes an entry; `undefined` if that cannot be done safely. */
export function withoutEntry(text: string, file: string, path: readonly string[]): string | undefined {
  const format = formatOf(file)
  const before = parseAs(format, text)
  if (!isJsonObject(before)) return undefined
  return verified(edit(), format, withMember(before, path, undefined))

  function edit(): string | undefined {
    if (format === 'json') return removeJsoncMember(text, path)
    if (format === 'toml') return withoutTables(text, path)
    const document = parseDocument(text)
    document.deleteIn(path)
    return document.toString({ lineWidth: 0 })
  }
}

/** Accepts an edit only if the new text parses to the intended value. */
function verified(text: string | undefined, format: Format, intended: JsonObject): string | undefined {
  const after = text === undefined ? undefined : parseAs(format, text)
  return isJsonObject(after) && canonicalJson(prune(after)) === canonicalJson(prune(intended))
    ? text
    : undefined
}

/** Removes empty objects, because an edit may keep or drop a list that has become empty. */
function prune(value: JsonValue): JsonValue {
  if (!isJsonObject(value)) return value
  const members = Object.entries(value).map(([name, inner]): [string, JsonValue] => [name, prune(inner)])
  return Object.fromEntries(
    members.filter(([, inner]) => !(isJsonObject(inner) && Object.keys(inner).length === 0)),
  )
}

function valueAt(root: JsonObject, path: readonly string[]): JsonValue | undefined {
  return path.reduce<JsonValue | undefined>(
    (value, name) => (isJsonObject(value) ? value[name] : undefined),
    root,
  )
}

function withMember(root: JsonObject, path: readonly string[], entry: JsonObject | undefined): JsonObject {
  const [name = '', ...rest] = path
  const { [name]: old, ...others } = root
  if (rest.length > 0) return { ...others, [name]: withMember(isJsonObject(old) ? old : {}, rest, entry) }
  return entry === undefined ? others : { ...others, [name]: entry }
}

function yamlText(
  document: ReturnType<typeof parseDocument>,
  path: readonly string[],
  entry: JsonObject,
): string {
  if (document.contents === null) document.contents = document.createNode({})
  document.setIn(path, document.createNode(entry))
  return document.toString({ lineWidth: 0 })
}

/** The text without the table at `path` and the tables inside it; `undefined` if there is no such table. */
function withoutTables(text: string, path: readonly string[]): string | undefined {
  const tables = (parseToml(text)?.tables ?? []).filter((table) =>
    path.every((name, index) => table.path[index] === name),
  )
  if (tables.length === 0) return undefined
  return tables.reduceRight((rest, { start, end }) => {
    const after = rest.slice(end).replace(/^(?:[ \t]*\r?\n)+/, '')
    return `${rest.slice(0, start)}${after}`
  }, text)
}
