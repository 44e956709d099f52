import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import {
  type Arguments,
  type CommandContext,
  defineCommand,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { backUp, lookForBypasses, removeBypasses, replaceFile } from '#cli/import/bypasses'
import { confirm } from '#cli/input'
import { DEFAULT_URL, findServer } from '#cli/server-address'
import { hasStore, lacksConfig, loadProjectConfig, STORE_OPTIONS, withStore } from '#cli/store-access'
import { findConfig } from '#config/load'
import type { JsonObject } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import type { Bypass } from '#server/import/bypass'
import { renderEntry, withEntry } from '#server/import/client-files'
import { inspectorCommand } from '#server/import/client-snippets'
import {
  addressEntry,
  CLIENT_NAMES,
  clientFolders,
  KEY_VARIABLE,
  type McpClient,
  mcpClient,
  programEntry,
  writtenFile,
} from '#server/import/clients'
import { isLoopback, isPrivateHost } from '#server/safety'

/**
 * `collet connect`: prints the entry that an MCP client needs to reach this server, or writes it into the client's
 * file. Invariant: a file is replaced whole, after a copy was made, and a file in an unknown format is left alone.
 */

const INSPECTOR = 'inspector'
const NAMES = [...CLIENT_NAMES, INSPECTOR]

const CONNECT_OPTIONS = {
  write: {
    help: "Write it into the client's file: the project's file if the client has one, otherwise the user's file.",
  },
  yes: { help: 'Write without asking. Other entries stay, unless --only is given too.' },
  only: {
    help: "With --write: remove, without asking, the client's own entries for servers that Collet serves.",
  },
  file: { value: 'F', help: 'Write into this file instead.' },
  name: { value: 'NAME', help: 'Name of the server in that file. Default: collet, with the toolset.' },
  stdio: { help: 'Let the client start "collet mcp" itself, even if the client takes an address.' },
  toolset: { value: 'T', help: 'Only the tools of this toolset of the config.' },
  url: {
    value: 'U',
    help: `Address of the server. Default: COLLET_URL, or the address in the config (${DEFAULT_URL}).`,
  },
  ...STORE_OPTIONS,
} as const satisfies OptionSpecs

/** The functions that find a server also read `key`, which is not an option of this command. */
type ConnectOption = keyof typeof CONNECT_OPTIONS | 'key'

const connect = defineCommand<Exclude<ConnectOption, 'key'>>({
  name: 'connect',
  summary: 'Prints what an MCP client needs to use this server, or writes it into its file.',
  details: [
    'Clients that take an address get this server\'s address; start it with "collet serve". Claude Desktop starts',
    'programs, so it gets "collet mcp" with the config of this folder. Once keys are in use, the snippet names the',
    `variable ${KEY_VARIABLE}: no key is ever printed or written.`,
    '--write changes one entry of the file and nothing else, and keeps a copy of the original file. Then it names the',
    'entries of the client that reach servers of this Collet directly, and asks whether to remove them.',
  ],
  positionals: [{ name: 'CLIENT', help: `${NAMES.join(', ')}.` }],
  options: CONNECT_OPTIONS,
  examples: [
    'collet connect claude-code',
    'collet connect cursor --write',
    'collet connect claude --write --only --yes',
    'collet connect vscode --toolset crm --write --yes',
    'collet connect inspector',
  ],
  async run(args, context) {
    const [name = ''] = args.positionals
    const target = await readTarget(args, context)
    if (name === INSPECTOR) return showInspector(target, context)
    const client = mcpClient(name)
    if (client === undefined)
      throw new UsageError(
        `Unknown client "${name}".${didYouMean(name, NAMES)} Clients: ${NAMES.join(', ')}.`,
      )
    const defaultFile = writtenFile(
      client,
      clientFolders(context.workingFolder, context.environment.variables()),
    )
    const file = resolve(context.workingFolder, args.text('file') ?? defaultFile)
    const serverName = args.text('name') ?? target.name
    const isStdio = args.flag('stdio')
    const entry = entryFor(client, { ...target, file, name: serverName, isStdio }, context)
    const snippet = { file, client, entry, name: serverName, isKeyed: target.isKeyed }
    if (!args.flag('write')) return show(snippet, name, context)
    const written = await write(snippet, args.flag('yes'), context)
    // The entry that was just written leads to Collet itself.
    const isOwn = (each: Bypass): boolean =>
      each.name === serverName && (each.file === written.file || each.file === file)
    const found = (await lookForBypasses(name, written.file, args, context)).filter((each) => !isOwn(each))
    const choice = {
      client: name,
      isOnly: args.flag('only'),
      isSure: args.flag('yes') || context.json,
      backups: new Map(written.backup === null ? [] : [[written.file, written.backup]]),
    }
    const removed = await removeBypasses(found, choice, context)
    if (context.json)
      context.output.json({
        ...written,
        bypasses: found.filter((each) => !removed.includes(each)).map(shownBypass),
        removed: removed.map(shownBypass),
      })
  },
})

/** The server that the entry leads to. */
interface Target {
  /** The address, including the toolset's path. */
  readonly url: string
  readonly isNamedUrl: boolean
  readonly toolset: string | undefined
  /** The config for `collet mcp`; absent if there is none. */
  readonly config: string | undefined
  readonly isKeyed: boolean
  readonly name: string
}

async function readTarget(args: Arguments<ConnectOption>, context: CommandContext): Promise<Target> {
  const { url } = await findServer(args, context)
  const toolset = args.text('toolset')
  const named = args.text('config') ?? context.environment.configFile
  const hasConfig = !lacksConfig(args, context) && args.text('store') === undefined
  if (toolset !== undefined && hasConfig) await checkToolset(toolset, named, context)
  return {
    url: `${url}/mcp${toolset === undefined ? '' : `/${encodeURIComponent(toolset)}`}`,
    isNamedUrl: args.text('url') !== undefined,
    toolset,
    config: hasConfig ? findConfig(context.workingFolder, named) : undefined,
    isKeyed: await needsKey(new URL(url), args, context),
    name: toolset === undefined ? 'collet' : `collet-${toolset}`,
  }
}

async function checkToolset(
  toolset: string,
  named: string | undefined,
  context: CommandContext,
): Promise<void> {
  const { toolsets } = (await loadProjectConfig(named, context)).config
  if (Object.hasOwn(toolsets, toolset)) return
  const names = Object.keys(toolsets)
  throw new UsageError(`There is no toolset "${toolset}" in the config.${didYouMean(toolset, names)}`)
}

/** A server on this machine without credentials accepts every local user; any other server requires a key. */
async function needsKey(url: URL, args: Arguments<ConnectOption>, context: CommandContext): Promise<boolean> {
  if (!isLoopback(url.hostname)) return true
  if (lacksConfig(args, context)) return false
  if (args.text('store') === undefined) {
    const { apiKeys, jwt, issuers } = (await loadProjectConfig(args.text('config'), context)).config.auth
    if (apiKeys.length > 0 || jwt !== undefined || issuers.length > 0) return true
  }
  if (!(await hasStore(args, context))) return false
  return await withStore(args, context, async ({ keys }) => (await keys.epoch()) > 0)
}

function entryFor(
  client: McpClient,
  target: Target & Pick<Snippet, 'file' | 'name'> & { readonly isStdio: boolean },
  { workingFolder, program, command: own }: CommandContext,
): JsonObject {
  const { file, url, name, isKeyed } = target
  const entry = target.isStdio ? undefined : addressEntry(client, { url, name, isKeyed })
  if (entry !== undefined) return entry
  if (target.isNamedUrl) throw new UsageError(connectorAdvice(client, url))
  if (target.config === undefined)
    throw new UsageError(
      'There is no config here that "collet mcp" could serve. Run collet import or collet init first.',
    )
  // A project file may be shared, so it contains no path of this machine if npx can find the package.
  const isProjectFile = client.projectFiles.some((name) => file === join(workingFolder, name))
  const [command = '', ...words] = isProjectFile && own === 'npx collet' ? ['npx', 'collet'] : program
  const config = isProjectFile ? relative(workingFolder, target.config) : target.config
  const toolset = target.toolset === undefined ? [] : ['--toolset', target.toolset]
  const args = [...words, 'mcp', '--config', config, ...toolset]
  return programEntry(client, { command, args }, { name, isKeyed })
}

/** Advice for `--url` with a client whose file can only name programs. */
function connectorAdvice({ title, connectors }: McpClient, url: string): string {
  const why = `The file of ${title} can name programs, but not addresses.`
  if (connectors === undefined) return `${why} Leave --url out: ${title} then starts Collet itself.`
  if (isPrivateHost(new URL(url).hostname))
    return `${why} Its connectors connect from Anthropic's cloud, which cannot reach ${new URL(url).host}. Leave --url out: ${title} then starts Collet itself.`
  return `${why} Add ${url} under ${connectors.menu}, or leave --url out. ${connectors.note}`
}

interface Snippet {
  readonly file: string
  readonly client: McpClient
  readonly entry: JsonObject
  /** The server's name in the client's file. */
  readonly name: string
  readonly isKeyed: boolean
}

function textOf({ client, name, entry }: Snippet): string {
  return renderEntry(client.format, [client.member, name], entry)
}

function show(snippet: Snippet, clientName: string, { output, json }: CommandContext): undefined {
  const { client, entry, file, name } = snippet
  if (json) {
    output.json({ client: clientName, file, name, member: client.member, entry })
    return
  }
  output.note(`For ${client.title}, in ${file}:`)
  output.data(textOf(snippet))
  output.note(`"collet connect ${clientName} --write" writes it there. ${client.after}`)
  noteKey(snippet, output)
}

function noteKey({ isKeyed, client }: Snippet, output: CommandContext['output']): void {
  if (!isKeyed) return
  const where =
    client.variable === undefined
      ? 'Write your key in place of <your key>'
      : `Set ${KEY_VARIABLE} where ${client.title} starts`
  output.note(`${where}; "collet keys create NAME" makes one.`)
}

function showInspector({ url, isKeyed }: Target, { output, json }: CommandContext): undefined {
  const command = inspectorCommand({ url, isKeyed })
  if (json) output.json({ client: INSPECTOR, url, command })
  else {
    output.note(
      `For the page: npx @modelcontextprotocol/inspector, then choose Streamable HTTP and enter ${url}`,
    )
    output.note('For the command line:')
    output.data(command)
  }
}

/** `backup` is the path of the copy; `null` if nothing changed or the file is new. */
async function write(snippet: Snippet, isSure: boolean, context: CommandContext) {
  const { output, json } = context
  const { client, name, entry } = snippet
  // Settings files are often symbolic links into another folder.
  const file = existsSync(snippet.file) ? await realpath(snippet.file) : snippet.file
  const before = existsSync(file) ? await readFile(file, 'utf8') : undefined
  const after = withEntry(before ?? '', file, { path: [client.member, name], entry })
  if (after === undefined) {
    output.data(textOf(snippet))
    throw new UsageError(
      `${file} does not have the format that ${client.title} uses, so it was not changed. Add the entry above yourself.`,
    )
  }
  if (after === before) {
    if (!json) output.note(`${file} already has this entry. ${client.after}`)
    return { file, name, changed: false, backup: null }
  }
  const question = `Write "${name}" into ${file}?`
  if (!isSure && !(await confirm(context, question, { default: 'yes' })))
    throw new UsageError('Nothing was written. Use --yes to write without being asked.')
  const backup = before === undefined ? null : await backUp(file, context)
  await replaceFile(file, after)
  if (!json) {
    output.done(`"${name}" is in ${file}${backup === null ? '' : `; original: ${backup}`}. ${client.after}`)
    noteKey(snippet, output)
  }
  return { file, name, changed: true, backup }
}

function shownBypass({ file, name, source, clear }: Bypass): JsonObject {
  return { file, name, source: source ?? null, clear: [...clear] }
}

export const COMMANDS = [connect]
