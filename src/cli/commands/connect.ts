import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import {
  type Arguments,
  type Command,
  type CommandContext,
  defineCommand,
  EXIT,
  type ExitCode,
  UsageError,
} from '#cli/command'
import { confirm } from '#cli/input'
import { DEFAULT_URL, findServer } from '#cli/server-address'
import { hasStore, lacksConfig, loadProjectConfig, STORE_OPTIONS, withStore } from '#cli/store-access'
import { findConfig } from '#config/load'
import type { JsonObject } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import { inspectorCommand, KEY_VARIABLE } from '#server/import/client-snippets'
import { clientFiles, clientPlace, MCP_CLIENTS, type McpClient, mcpClient } from '#server/import/clients'
import { setJsoncMember } from '#server/import/jsonc'
import { isLoopback } from '#server/safety'

type ConnectOption =
  | 'write'
  | 'yes'
  | 'file'
  | 'name'
  | 'stdio'
  | 'toolset'
  | 'url'
  | 'key'
  | keyof typeof STORE_OPTIONS

const INSPECTOR = 'inspector'
const NAMES = [...Object.keys(MCP_CLIENTS), INSPECTOR]

const connect = defineCommand<Exclude<ConnectOption, 'key'>>({
  name: 'connect',
  summary: 'Prints what an MCP client needs to use this server, or writes it into its file.',
  details: [
    'Clients that take an address get the one of this server; start it with "collet serve". Claude Desktop starts',
    'programs, so it gets "collet mcp" with the config of this folder. Once keys are in use, the snippet names the',
    `variable ${KEY_VARIABLE}: no key is ever printed or written.`,
    '--write changes one entry of the file and nothing else, and keeps a copy of the file as it was.',
  ],
  positionals: [{ name: 'CLIENT', help: `${NAMES.join(', ')}.` }],
  options: {
    write: {
      help: 'Write it into the file of the client: of this project where it has one, else of the user.',
    },
    yes: { help: 'Write without asking.' },
    file: { value: 'F', help: 'Write into this file instead.' },
    name: { value: 'NAME', help: 'What the server is called there. Default: collet, with the toolset.' },
    stdio: { help: 'Let the client start "collet mcp" itself, although it takes an address.' },
    toolset: { value: 'T', help: 'Only the tools of this toolset of the config.' },
    url: {
      value: 'U',
      help: `Address of the server. Default: COLLET_URL, or that of the config (${DEFAULT_URL}).`,
    },
    ...STORE_OPTIONS,
  },
  examples: [
    'collet connect claude-code',
    'collet connect cursor --write',
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
        `There is no client "${name}" here.${didYouMean(name, NAMES)} Clients: ${NAMES.join(', ')}.`,
      )
    const [usual = ''] = clientFiles(
      client,
      clientPlace(context.workingFolder, context.environment.variables()),
    )
    const file = resolve(context.workingFolder, args.text('file') ?? usual)
    const entry = entryFor(client, { file, target, isStdio: args.flag('stdio') }, context)
    const snippet = { file, client, entry, name: args.text('name') ?? target.name, isKeyed: target.isKeyed }
    return args.flag('write') ? await write(snippet, args.flag('yes'), context) : show(snippet, name, context)
  },
})

/** What is connected to. */
interface Target {
  /** With the path of the toolset. */
  readonly url: string
  readonly isNamedUrl: boolean
  readonly toolset: string | undefined
  /** The config that `collet mcp` serves; absent where there is none. */
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

/** A server on this machine without any credential lets everybody on it in; every other one wants a key. */
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

interface EntryOptions {
  readonly file: string
  readonly target: Target
  readonly isStdio: boolean
}

function entryFor(
  client: McpClient,
  { file, target, isStdio }: EntryOptions,
  { workingFolder, program }: CommandContext,
): JsonObject {
  const key = client.variable?.(KEY_VARIABLE)
  if (client.atAddress !== undefined && !isStdio) {
    const headers = target.isKeyed ? { headers: { Authorization: `Bearer ${key ?? '<your key>'}` } } : {}
    return client.atAddress(target.url, headers)
  }
  if (target.isNamedUrl)
    throw new UsageError(
      `The file of ${client.title} names programs, not addresses. Add ${target.url} as a connector in its settings, or leave --url out.`,
    )
  if (target.config === undefined)
    throw new UsageError(
      'There is no config here that "collet mcp" could serve. Run collet import or collet init first.',
    )
  // A file of the project may be shared, so it has no path of this machine in it; others are read from anywhere.
  const { projectFile } = client
  const isOfProject = projectFile !== undefined && file === join(workingFolder, projectFile)
  const [command = '', ...words] = isOfProject ? ['npx', 'collet'] : program
  const config = isOfProject ? relative(workingFolder, target.config) : target.config
  const toolset = target.toolset === undefined ? [] : ['--toolset', target.toolset]
  return {
    ...(client.member === 'servers' ? { type: 'stdio' } : {}),
    command,
    args: [...words, 'mcp', '--config', config, ...toolset],
    ...(target.isKeyed ? { env: { [KEY_VARIABLE]: key ?? '<your key>' } } : {}),
  }
}

interface Snippet {
  readonly file: string
  readonly client: McpClient
  readonly entry: JsonObject
  readonly name: string
  readonly isKeyed: boolean
}

function textOf({ client, name, entry }: Snippet): string {
  return JSON.stringify({ [client.member]: { [name]: entry } }, undefined, 2)
}

function show(snippet: Snippet, called: string, { output, json }: CommandContext): ExitCode {
  const { client, entry, file, name } = snippet
  if (json) {
    output.json({ client: called, file, name, member: client.member, entry })
    return EXIT.ok
  }
  output.note(`For ${client.title}, in ${file}:`)
  output.data(textOf(snippet))
  output.note(`"collet connect ${called} --write" writes it there. ${client.after}`)
  noteKey(snippet, output)
  return EXIT.ok
}

function noteKey({ isKeyed, client }: Snippet, output: CommandContext['output']): void {
  if (!isKeyed) return
  const where =
    client.variable === undefined
      ? 'Write your key in place of <your key>'
      : `Set ${KEY_VARIABLE} where ${client.title} starts`
  output.note(`${where}; "collet keys create NAME" makes one.`)
}

function showInspector({ url, isKeyed }: Target, { output, json }: CommandContext): ExitCode {
  const command = inspectorCommand({ url, isKeyed })
  if (json) output.json({ client: INSPECTOR, url, command })
  else {
    output.note(
      `For the page: npx @modelcontextprotocol/inspector, then choose Streamable HTTP and enter ${url}`,
    )
    output.note('For the command line:')
    output.data(command)
  }
  return EXIT.ok
}

async function write(snippet: Snippet, isSure: boolean, context: CommandContext): Promise<ExitCode> {
  const { output, json } = context
  const { client, name, entry } = snippet
  // Files of settings are often links into a folder that is kept elsewhere.
  const file = existsSync(snippet.file) ? await realpath(snippet.file) : snippet.file
  const before = existsSync(file) ? await readFile(file, 'utf8') : undefined
  const text = before === undefined || before.trim() === '' ? '{}\n' : before
  const after = setJsoncMember(text, [client.member, name], entry)
  if (after === undefined) {
    output.data(textOf(snippet))
    throw new UsageError(
      `${file} is not what ${client.title} writes, so it was left alone. Put this into it yourself.`,
    )
  }
  if (after === before) {
    if (json) output.json({ file, name, isChanged: false })
    else output.note(`${file} has it already. ${client.after}`)
    return EXIT.ok
  }
  if (!isSure && !(await confirm(context, `Write "${name}" into ${file}?`)))
    throw new UsageError('Nothing was written. Use --yes to write without being asked.')
  const backup = before === undefined ? undefined : await backUp(file, context)
  await replaceFile(file, after)
  if (json) output.json({ file, name, isChanged: true, backup: backup ?? null })
  else {
    output.done(
      `"${name}" is in ${file}${backup === undefined ? '' : `; as it was: ${backup}`}. ${client.after}`,
    )
    noteKey(snippet, output)
  }
  return EXIT.ok
}

async function backUp(file: string, { clock }: CommandContext): Promise<string> {
  const stamp = new Date(clock.nowMs()).toISOString().replace(/[-:]|\.\d+/g, '')
  const backup = `${file}.${stamp}.backup`
  await copyFile(file, backup)
  return backup
}

/** Whole or not at all, with the permissions it had. */
async function replaceFile(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const mode = existsSync(file) ? (await stat(file)).mode & 0o777 : 0o600
  const beside = `${file}.${randomUUID()}.new`
  try {
    const handle = await open(beside, 'wx', mode)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await chmod(beside, mode)
    await rename(beside, file)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}

export const COMMANDS: readonly Command[] = [connect]
