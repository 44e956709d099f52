import { join } from 'node:path'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { parseSettings, readSettingsFile } from './client-files.ts'
import { type ClientFile, clientFiles, type clientFolders, mcpClient } from './clients.ts'

/**
 * Reads what the user has decided about MCP servers in Claude Code, Gemini CLI and Codex, for `collet import --from`.
 * Invariant: an approval counts only from the user's own files, because a repository may contain settings that approve
 * its own servers. A rejection counts from every file.
 */

type Folders = ReturnType<typeof clientFolders>
type Decision = 'approved' | 'rejected' | 'undecided'

export interface ClientDecision {
  readonly decision: Decision
  readonly client: string
}

/** Returns `undefined` if the client's files contain no decision about the server. */
type Decide = (name: string, scope: ClientFile['scope']) => Decision | undefined

/**
 * Decisions about the servers in a file. `client` is the client whose file was named, if any. A rejection counts from
 * every client that reads the file, because it concerns the server, not the client.
 */
export function readDecisions(
  path: string,
  client: string | undefined,
  folders: Folders,
): (name: string) => ClientDecision | undefined {
  const readers = Object.entries(READERS).flatMap(([reader, read]) => {
    const known = mcpClient(reader)
    const file = known && clientFiles(known, folders).find((each) => each.path === path)
    return file === undefined ? [] : [{ client: reader, scope: file.scope, decide: read(folders) }]
  })
  return (name) => {
    const all = readers.flatMap((reader): readonly ClientDecision[] => {
      const decision = reader.decide(name, reader.scope)
      return decision === undefined ? [] : [{ decision, client: reader.client }]
    })
    return all.find(({ decision }) => decision === 'rejected') ?? all.find((each) => each.client === client)
  }
}

const READERS: Readonly<Record<string, (folders: Folders) => Decide>> = {
  'claude-code': claudeCode,
  gemini,
  codex,
}

function claudeCode({ home, folder, platform, variables }: Folders): Decide {
  const config = variables.CLAUDE_CONFIG_DIR || join(home, '.claude')
  const states = [join(home, '.claude.json'), join(config, '.claude.json')].map(read)
  const projectStates = states.map(({ projects }) => objectIn(projects, folder))
  const own = [read(join(config, 'settings.json')), ...projectStates]
  const fromRepository = ['settings.json', 'settings.local.json'].map((name) =>
    read(join(folder, '.claude', name)),
  )
  const managed = read(join(MANAGED[platform] ?? '/etc/claude-code', 'managed-settings.json'))
  const denied = [...own, ...fromRepository, managed].flatMap(({ deniedMcpServers: list }) =>
    Array.isArray(list) ? list.flatMap((each) => (isJsonObject(each) ? String(each.serverName) : [])) : [],
  )
  const turnedOff = new Set([...names([...projectStates, ...states], 'disabledMcpServers'), ...denied])
  const rejected = names([...own, ...fromRepository, managed], 'disabledMcpjsonServers')
  const approved = names(own, 'enabledMcpjsonServers')
  const approvesAll = own.some(({ enableAllProjectMcpServers }) => enableAllProjectMcpServers === true)
  return (name, scope) => {
    if (turnedOff.has(name)) return 'rejected'
    if (scope === 'user') return undefined
    if (rejected.has(name)) return 'rejected'
    return approvesAll || approved.has(name) ? 'approved' : 'undecided'
  }
}

/** Settings of Claude Code that an organisation manages. */
const MANAGED: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
  darwin: '/Library/Application Support/ClaudeCode',
  win32: 'C:\\Program Files\\ClaudeCode',
}

function gemini({ home, folder }: Folders): Decide {
  const settings = [home, folder].map((root) => objectIn(read(join(root, '.gemini', 'settings.json')), 'mcp'))
  const excluded = names(settings, 'excluded')
  const allowed = settings.flatMap((each) => (Array.isArray(each.allowed) ? [names([each], 'allowed')] : []))
  return (name) => (excluded.has(name) || allowed.some((list) => !list.has(name)) ? 'rejected' : undefined)
}

/** Codex reads a project's file only if the user trusts the project. */
function codex({ home, folder, variables }: Folders): Decide {
  const config = read(join(variables.CODEX_HOME || join(home, '.codex'), 'config.toml'))
  const { trust_level: level } = objectIn(config.projects, folder)
  const decision = level === 'trusted' ? 'approved' : level === 'untrusted' ? 'rejected' : 'undecided'
  return (_, scope) => (scope === 'user' ? undefined : decision)
}

function read(file: string): JsonObject {
  const text = readSettingsFile(file)
  return (text === undefined ? undefined : parseSettings(text, file)) ?? {}
}

function objectIn(holder: JsonValue | undefined, name: string): JsonObject {
  const value = isJsonObject(holder) ? holder[name] : undefined
  return isJsonObject(value) ? value : {}
}

function names(settings: readonly JsonObject[], member: string): ReadonlySet<string> {
  const lists = settings.map((each) => each[member])
  return new Set(lists.flatMap((list) => (Array.isArray(list) ? list : [])).map(String))
}
