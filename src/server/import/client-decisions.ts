import { join } from 'node:path'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { parseSettings, readSettingsFile } from './client-files.ts'
import type { ClientFile, clientPlace } from './clients.ts'

/**
 * What a person has already decided about servers in the client itself. A yes counts only from the user's own files, because a
 * repository can bring settings that approve its own servers. A no counts from every file.
 */

type Place = ReturnType<typeof clientPlace>
export type Decision = 'approved' | 'rejected' | 'undecided'

/** What was decided about a server; `undefined` where the client keeps no decisions in files. */
type Decide = (name: string, scope: ClientFile['scope']) => Decision | undefined

/** Reads the decisions that the user of a client has taken. */
export function readDecisions(client: string, place: Place): Decide {
  return READERS[client]?.(place) ?? (() => undefined)
}

const READERS: Readonly<Record<string, (place: Place) => Decide>> = {
  'claude-code': claudeCode,
  gemini,
  codex,
}

function claudeCode({ home, folder, variables }: Place): Decide {
  const config = variables.CLAUDE_CONFIG_DIR || join(home, '.claude')
  const state = read(join(home, '.claude.json'))
  const ofProject = objectIn(state.projects, folder)
  const own = [read(join(config, 'settings.json')), ofProject]
  const brought = ['settings.json', 'settings.local.json'].map((name) => read(join(folder, '.claude', name)))
  const isTurnedOff = names([ofProject, state], 'disabledMcpServers')
  const rejected = names([...own, ...brought], 'disabledMcpjsonServers')
  const approved = names(own, 'enabledMcpjsonServers')
  const approvesAll = own.some(({ enableAllProjectMcpServers }) => enableAllProjectMcpServers === true)
  return (name, scope) => {
    if (isTurnedOff.has(name)) return 'rejected'
    if (scope === 'user') return undefined
    if (rejected.has(name)) return 'rejected'
    return approvesAll || approved.has(name) ? 'approved' : 'undecided'
  }
}

function gemini({ home, folder }: Place): Decide {
  const settings = [home, folder].map((place) =>
    objectIn(read(join(place, '.gemini', 'settings.json')), 'mcp'),
  )
  const excluded = names(settings, 'excluded')
  const allowed = settings.flatMap((each) => (Array.isArray(each.allowed) ? [names([each], 'allowed')] : []))
  return (name) => (excluded.has(name) || allowed.some((list) => !list.has(name)) ? 'rejected' : undefined)
}

/** Codex reads a project's file only where the user trusts that project. */
function codex({ home, folder, variables }: Place): Decide {
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
