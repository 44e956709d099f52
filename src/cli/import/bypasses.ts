import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Check, type CheckedStore, readIfPossible, warn } from '#cli/check-names'
import type { CommandContext } from '#cli/command'
import { confirm } from '#cli/input'
import { DEFAULT_URL } from '#cli/server-address'
import { configHere, hasStore, type StoreArguments, withStore } from '#cli/store-access'
import type { ParsedConfig } from '#config/schema'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { type Bypass, bypassNames, findBypasses, upstreamIn } from '#server/import/bypass'
import { withoutEntry } from '#server/import/client-files'
import { isOwnMcpAddress } from '#server/import/client-servers'
import { CLIENT_NAMES, clientFolders } from '#server/import/clients'

/**
 * Entries of MCP clients that reach a server directly although Collet serves it, and so bypass approvals. `connect`
 * lists them and removes them on request, `doctor` warns about them. The module also copies and replaces the files of
 * clients. Invariant: a file is replaced atomically, after a copy was made.
 */

/** The entries of a client, in this file and its other files, that bypass the Collet of this folder. */
export async function lookForBypasses(
  client: string,
  file: string,
  args: StoreArguments,
  context: CommandContext,
): Promise<readonly Bypass[]> {
  const config = (await configHere(args, context))?.config
  const stored = (await hasStore(args, context))
    ? await withStore(args, context, async ({ sources }) => await sources.list())
    : []
  const folders = clientFolders(context.workingFolder, context.environment.variables())
  const files = [{ path: file, scope: 'user' as const }]
  return findBypasses([client], { folders, files, ...known(config, stored) })
}

function known(
  config: Pick<ParsedConfig, 'sources' | 'server'> | undefined,
  stored: readonly { readonly key: string; readonly options: JsonObject }[],
) {
  const configured = Object.entries(config?.sources ?? {}).map(([key, options]) => ({
    key,
    options: upstreamIn(options),
  }))
  const port = config?.server.port ?? Number(new URL(DEFAULT_URL).port)
  return { sources: [...stored, ...configured], isOwnAddress: isOwnMcpAddress(port) }
}

/** For `doctor`: entries of clients on this machine that reach imported servers directly. */
export async function checkBypasses(
  { config, store }: { readonly config: ParsedConfig; readonly store: CheckedStore },
  { workingFolder, environment }: CommandContext,
): Promise<readonly Check[]> {
  const stored = (await readIfPossible(store, ({ sources }) => sources.list())) ?? []
  const folders = clientFolders(workingFolder, environment.variables())
  const found = findBypasses(CLIENT_NAMES, { folders, ...known(config, stored) })
  const imported = Map.groupBy(
    found.filter(({ source }) => source !== undefined),
    ({ client }) => client,
  )
  return [...imported].map(([client, entries]) =>
    warn(
      'client',
      `${entries[0]?.title ?? client} reaches ${bypassNames(entries)} without Collet: ${filesOf(entries)}`,
      `Run: collet connect ${client} --write --only`,
    ),
  )
}

function filesOf(bypasses: readonly Bypass[]): string {
  return [...new Set(bypasses.map(({ file }) => file))].join(', ')
}

interface RemovalOptions {
  readonly client: string
  /** `--only`: remove without asking. */
  readonly isOnly: boolean
  /** `--yes` or `--json`: no question is asked. */
  readonly isSure: boolean
  /** Backups made so far, by the file that was copied. */
  readonly backups: ReadonlyMap<string, string>
}

/** Lists the entries that bypass Collet, and removes those that the user chooses. Returns the removed entries. */
export async function removeBypasses(
  bypasses: readonly Bypass[],
  { client, isOnly, isSure, backups }: RemovalOptions,
  context: CommandContext,
): Promise<readonly Bypass[]> {
  const { output } = context
  const served = bypasses.filter(({ source }) => source !== undefined)
  const others = bypasses.filter(({ source }) => source === undefined)
  if (others.length > 0)
    output.note(
      `Not imported, so ${others.length === 1 ? 'it bypasses' : 'they bypass'} Collet: ${cleanText(bypassNames(others))} in ${filesOf(others)}. "collet import --from ${client}" imports ${others.length === 1 ? 'it' : 'them'}.`,
    )
  if (served.length === 0) return []
  const isOne = served.length === 1
  const [them, are] = isOne ? ['it', 'is'] : ['them', 'are']
  output.warn(
    `${cleanText(bypassNames(served))} ${are} still in ${filesOf(served)} and ${isOne ? 'bypasses' : 'bypass'} Collet: the agent has these tools twice, once without approvals and records.`,
  )
  if (!isOnly && (isSure || !(await confirm(context, `Remove ${them}?`, { default: 'yes' })))) {
    output.note(`To remove ${them}: collet connect ${client} --write --only`)
    return []
  }
  const removed: Bypass[] = []
  for (const [file, entries] of Map.groupBy(served, (each) => each.file))
    removed.push(...(await removeFrom(file, entries, backups, context)))
  return removed
}

async function removeFrom(
  named: string,
  entries: readonly Bypass[],
  backups: RemovalOptions['backups'],
  context: CommandContext,
): Promise<readonly Bypass[]> {
  const { output } = context
  const file = await realpath(named)
  const names = entries.map(({ name }) => cleanText(name)).join(', ')
  let text: string | undefined = await readFile(file, 'utf8')
  for (const { path } of entries) text = text === undefined ? undefined : withoutEntry(text, file, path)
  if (text === undefined) {
    output.warn(`${file} could not be changed safely. Remove ${names} from it yourself.`)
    return []
  }
  const backup = backups.get(file) ?? (await backUp(file, context))
  await replaceFile(file, text)
  output.done(`Removed ${names} from ${file}; original: ${backup}.`)
  return entries
}

/** Copies a file into its own folder; returns the path of the copy. */
export async function backUp(file: string, { clock }: CommandContext): Promise<string> {
  const stamp = new Date(clock.nowMs()).toISOString().replace(/[-:]|\.\d+/g, '')
  const backup = `${file}.${stamp}.backup`
  await copyFile(file, backup)
  return backup
}

/** Replaces a file atomically and keeps its permissions. */
export async function replaceFile(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const mode = existsSync(file) ? (await stat(file)).mode & 0o777 : 0o600
  const temporary = `${file}.${randomUUID()}.new`
  try {
    const handle = await open(temporary, 'wx', mode)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await chmod(temporary, mode)
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
