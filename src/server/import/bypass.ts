import { canonicalJson, type JsonObject } from '#kernel/base/json'
import { readServerList, readSettingsFile } from './client-files.ts'
import { describeServer, readServer } from './client-servers.ts'
import { type ClientFile, clientFiles, type clientFolders, mcpClient } from './clients.ts'

/**
 * Finds entries of MCP clients with which an agent reaches the server behind a source directly, without approvals,
 * limits and records. `collet connect`, `collet doctor` and the console show them. Invariant: it only reads files;
 * nothing is started, and placeholders are filled in only to compare values in memory.
 */

/** An entry in a client's file that does not lead to Collet. */
export interface Bypass {
  readonly client: string
  readonly title: string
  readonly file: string
  readonly scope: ClientFile['scope']
  /** The names of the members that lead to the entry in the file. */
  readonly path: readonly string[]
  readonly name: string
  /** The source that serves the same server; absent if Collet does not serve it. */
  readonly source: string | undefined
  /** Names of variables and headers that look like credentials and are in the file in clear text. */
  readonly clear: readonly string[]
}

interface BypassOptions {
  readonly folders: ReturnType<typeof clientFolders>
  readonly sources: readonly { readonly key: string; readonly options: JsonObject }[]
  isOwnAddress(url: string): boolean
  readonly files?: readonly ClientFile[]
}

export function findBypasses(
  clients: readonly string[],
  { folders, sources, isOwnAddress, files = [] }: BypassOptions,
): readonly Bypass[] {
  const keys = new Map(sources.map(({ key, options }) => [targetOf(options), key]))
  const variable = (name: string) => folders.variables[name]
  const values = { home: folders.home, variable, input: () => '', readFile: () => '' }
  const seen = new Set<string>()
  return clients.flatMap((name) => {
    const client = mcpClient(name)
    if (client === undefined) return []
    return [...clientFiles(client, folders), ...files].flatMap(({ path: file, scope }) => {
      if (seen.has(file)) return []
      seen.add(file)
      const text = readSettingsFile(file)
      const servers = text === undefined ? [] : (readServerList(text, file, folders.folder)?.servers ?? [])
      return servers.flatMap((server) => {
        const plan = describeServer(server, isOwnAddress)
        if ('kind' in plan) return []
        const source = keys.get(targetOf(readServer(server, folders.folder, values).options))
        const { path, name: serverName } = server
        return {
          client: name,
          title: client.title,
          file,
          scope,
          path,
          name: serverName,
          source,
          clear: plan.clear,
        }
      })
    })
  })
}

/** Equal for entries that lead to one program or address, even if their credentials or working folders differ. */
function targetOf({ command, args, url }: JsonObject): string {
  if (command !== undefined) return canonicalJson([command, args ?? []])
  const address = typeof url === 'string' ? URL.parse(url) : null
  return canonicalJson(address === null ? null : `${address.origin}${address.pathname}`)
}

/** The command or address in a source's options of any type. */
export function upstreamIn(options: object = {}): JsonObject {
  const { command, args, url }: { command?: unknown; args?: unknown; url?: unknown } = options
  return {
    ...(typeof command === 'string' ? { command, args: Array.isArray(args) ? args.map(String) : [] } : {}),
    ...(typeof url === 'string' ? { url } : {}),
  }
}

/** Lists the entries, for example `files, memory (with TOKEN in clear text)`. */
export function bypassNames(bypasses: readonly Bypass[]): string {
  return bypasses
    .map(({ name, clear }) =>
      clear.length === 0 ? name : `${name} (with ${clear.join(', ')} in clear text)`,
    )
    .join(', ')
}
