import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { CHOICE_OPTIONS, ImportChoices } from '#cli/import/choices'
import { chooseKey, refuseConfigured, updateKnownSource } from '#cli/import/choose-key'
import { type ImportWork, importFrom } from '#cli/import/from'
import { ALL_CLIENTS, FROM_NAMES, isServerList } from '#cli/import/listed'
import { SourceRegistry } from '#cli/import/registry'
import { confirm, readHidden } from '#cli/input'
import { STORE_OPTIONS } from '#cli/store-access'
import { cleanText, defined, isJsonObject, type JsonObject } from '#kernel/base/json'
import { isCatalogAddress, listedServers } from '#server/import/ai-catalog'
import { detectSource, type ImportTarget, isSourceKey, suggestKey } from '#server/import/detect'
import { createImportFetch, failureAdvice, importWarnings, previewSource } from '#server/import/preview'
import { type FoundSource, IMPORT_TYPES } from '#server/import/probe'
import { isLoopback } from '#server/safety'
import { countOffered, countsText } from '#sources/kit/offer-counts'
import type { Discovery } from '#sources/kit/source'
import { shownAddress } from '#sources/kit/source-facts'

/**
 * `collet import`: adds a source of tools from an address, a file, a program, or the files of MCP clients
 * (`import/from.ts`). It detects the kind of the source, reads its tools, shows them and stores the source.
 * Invariant: no program is started and nothing is stored without consent (`--yes`, or an answer on a terminal).
 */

const MAX_SHOWN = 20
/** Timeout of the detection; the start of the source has its own. */
const DETECTION_TIMEOUT_MS = 120_000

const IMPORT_OPTIONS = {
  from: {
    value: 'CLIENT',
    bareValue: ALL_CLIENTS,
    help: `${FROM_NAMES}, or a file in the format of one of these clients. Default: all.`,
  },
  server: {
    value: 'NAME',
    many: true,
    help: 'With --from: only the server with this name. May be repeated. Default: asked on a terminal, else all.',
  },
  project: {
    help: 'With --from: also the servers in files of this project, which may come from its repository.',
  },
  key: {
    value: 'NAME',
    help: 'Key of the source, which is the toolkit of its tools. Default: the name that the source reports.',
  },
  type: { value: 'T', help: 'Type of the source: mcp, openapi, otc or opentool. Default: detected.' },
  env: {
    value: 'NAME[=VALUE]',
    many: true,
    help: 'A variable for the program, stored encrypted; without =VALUE, the value in this shell is used. With --from: the value for the placeholder of that name. May be repeated.',
  },
  ...CHOICE_OPTIONS,
  'api-key': {
    help: 'Read a key or token for it from stdin, to be stored encrypted. Needs --yes or --print.',
  },
  replace: { help: 'Replace the source that has this key.' },
  yes: {
    help: "Start and add without asking. Without a terminal, a client's servers are started only with this option.",
  },
  print: { help: 'Only print what to write into the config.' },
  url: { value: 'U', help: 'Add it through this server instead of the store.' },
  credential: {
    value: 'K',
    help: 'With --url: API key with the scope admin:sources. Default: COLLET_API_KEY, or the start token of a server on this machine.',
  },
  ...STORE_OPTIONS,
} as const satisfies OptionSpecs

type ImportOption = keyof typeof IMPORT_OPTIONS

const importSource = defineCommand<ImportOption>({
  name: 'import',
  summary: 'Imports tools: all MCP servers of a client (--from), or one server, description or program.',
  details: [
    'With --from, the MCP servers that a client lists become sources. The command first shows each program that it would',
    'start and each address that it would contact, and starts only what you choose. Without a terminal it starts nothing unless',
    'you add --yes. Files of the project are read only with --project; servers that you rejected in the client are left out.',
    'A server that is imported already is not changed, except for new values of its credentials.',
    'To import the same server for another account, choose another --key.',
    'An address is probed for MCP, OpenAPI, OTC, OpenTool and openwop. The address of an AI catalog or of a server card',
    'stands for the MCP servers that it lists. A file is an OpenAPI, Swagger or OpenTool document. Words after -- are a',
    'program that speaks MCP on its standard input and output.',
    'Config and database are created if there are none. Servers on the same store notice within a second.',
    'A source in the config with the same key takes precedence.',
    'Only the address that you name may be local; addresses that it refers to may not.',
  ],
  positionals: [
    {
      name: 'TARGET',
      many: true,
      optional: true,
      help: 'URL, file, or -- and a program with its arguments.',
    },
  ],
  options: IMPORT_OPTIONS,
  examples: [
    'collet import --from claude',
    'collet import --from .vscode/mcp.json --yes --trust annotations',
    'collet import --key Files -- npx -y @modelcontextprotocol/server-filesystem /data',
    'collet import --env GITHUB_TOKEN --read-only -- npx -y some-github-server',
    'collet import https://tools.example.com --yes',
    'collet import ./openapi.yaml --key Billing --tag invoices --print',
  ],
  async run(args, context) {
    const from = args.text('from') ?? serverListFile(args, context)
    const choices = new ImportChoices(args)
    const registry = new SourceRegistry(args, 'credential', context)
    const ending = new AbortController()
    const stopListening = context.onStop(() => ending.abort(new CommandFailure(EXIT.usage, 'Stopped.')))
    const work = { choices, registry, env: readVariables(args, context), signal: ending.signal }
    try {
      if (from !== undefined) {
        checkOptionsWithFrom(args)
        const selection = {
          isSure: args.flag('yes'),
          isNamed: args.text('from') !== undefined,
          withProject: args.flag('project'),
          only: args.texts('server'),
        }
        return await importFrom({ from, ...work, ...selection }, context)
      }
      const target = readTarget(args, context)
      const send = createImportFetch(target.kind === 'url' ? target.url : undefined)
      try {
        const listed = await serversOfCatalog(target, { ...work, args, send }, context)
        if (listed.length === 0) await importTarget(target, { ...work, args, send }, context)
        else await importAll(listed, { ...work, args, send }, context)
      } finally {
        await send.close()
      }
    } finally {
      stopListening()
    }
  },
})

/** Returns the path if the target is a file that lists servers, which is imported like `--from FILE`. */
function serverListFile(
  args: Arguments<ImportOption>,
  { workingFolder }: CommandContext,
): string | undefined {
  const [file = '', ...others] = args.positionals
  const path = resolve(workingFolder, file)
  const isFile =
    others.length === 0 && args.afterDashes === undefined && /\.(?:jsonc?|toml|ya?ml)$/.test(file)
  return isFile && existsSync(path) && isServerList(path, workingFolder) ? path : undefined
}

function checkOptionsWithFrom(args: Arguments<ImportOption>): void {
  if (args.text('from') !== undefined && args.positionals.length > 0)
    throw new UsageError('--from imports what a client lists, so leave out the address, file or program.')
  for (const name of ['key', 'type', 'tag', 'method'] as const)
    if (args.text(name) !== undefined) throw new UsageError(`--${name} cannot be used with --from.`)
  for (const name of ['api-key', 'print', 'replace'] as const)
    if (args.flag(name)) throw new UsageError(`--${name} cannot be used with --from.`)
}

/** `--env NAME=VALUE`, or `--env NAME` for the value that this shell has. */
function readVariables(
  args: Arguments<ImportOption>,
  { environment }: CommandContext,
): Readonly<Record<string, string>> {
  const own = environment.variables()
  return Object.fromEntries(
    args.texts('env').map((text): [string, string] => {
      const [, name = '', value = own[name]] = /^([^=]+)(?:=(.*))?$/s.exec(text) ?? []
      if (name === '') throw new UsageError(`--env expects NAME or NAME=VALUE.`)
      if (value === undefined)
        throw new UsageError(
          `--env ${name}: this shell has no such variable. Set it, or write --env ${name}=VALUE.`,
        )
      return [name, value]
    }),
  )
}

interface TargetWork extends ImportWork {
  readonly args: Arguments<ImportOption>
  readonly send: typeof fetch
}

/** The addresses of a catalog's servers, if it has several; none for any other target. */
async function serversOfCatalog(
  target: ImportTarget,
  { args, send, signal }: TargetWork,
  { output }: CommandContext,
): Promise<readonly string[]> {
  if (target.kind !== 'url' || !isCatalogAddress(target.url) || args.flag('api-key')) return []
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(DETECTION_TIMEOUT_MS)])
  const probe = { send, signal: deadline, apiKey: undefined }
  const servers = (await listedServers(target.url, probe).catch(() => undefined)) ?? []
  if (servers.length < 2) return []
  if (args.text('key') !== undefined)
    throw new UsageError(`The catalog lists ${servers.length} servers, so --key cannot name them all.`)
  output.note(`The catalog lists ${servers.length} MCP servers:`)
  for (const { url, name } of servers)
    output.note(`  ${cleanText(name ?? '')}  ${cleanText(shownAddress(url))}`)
  return servers.map(({ url }) => url)
}

/** A server that cannot be imported does not stop the others. */
async function importAll(urls: readonly string[], work: TargetWork, context: CommandContext): Promise<void> {
  const failures: CommandFailure[] = []
  for (const url of urls)
    await importTarget({ kind: 'url', url }, work, context).catch((error: unknown) => {
      if (!(error instanceof CommandFailure)) throw error
      context.output.warn(`${cleanText(shownAddress(url))}: ${error.message}`)
      failures.push(error)
    })
  if (failures.length > 0)
    throw new CommandFailure(EXIT.server, `${failures.length} of ${urls.length} servers were not added.`)
}

async function importTarget(target: ImportTarget, work: TargetWork, context: CommandContext): Promise<void> {
  const { args, registry, choices } = work
  const { output } = context
  await checkKey(args.text('key'), work)
  const found = withVariables(await findTarget(target, work, context), work.env)
  const wanted = choices.apply(found.options)
  const discovery = await readTools(target, { ...found, options: wanted }, work, context)
  const offered = choices.narrow(discovery.tools, wanted)
  const counts = countOffered(offered)
  if (counts.tools === 0 && args.flag('read-only'))
    throw new UsageError('None of its tools is marked read-only. Leave out --read-only.')
  const chosen = await chooseKey(
    suggestKey(discovery.name === undefined ? found : { ...found, name: discovery.name }),
    wanted,
    work,
    context,
  )
  if (chosen.known !== undefined) return await updateKnownSource(chosen.known, wanted, work, context)
  const { key } = chosen
  const seen = { ...discovery, tools: offered }
  if (!context.json) show(key, found, seen, wanted, context)
  const trust = await choices.decideTrust(offered, context)
  const options = choices.stored(wanted, offered, trust)
  if (args.flag('print')) {
    const sources = { [key]: withoutSecrets(options) }
    if (context.json) output.json({ sources })
    else output.data(`"sources": ${JSON.stringify(sources, undefined, 2)}`)
    return
  }
  if (!args.flag('yes') && !(await confirm(context, `Add it as "${key}"?`)))
    throw new UsageError('Nothing was added. Use --yes to add it without being asked.')
  await registry.add({ key, options, replace: args.flag('replace') })
  if (context.json) {
    const { prompts, templates } = counts
    output.json({
      key,
      type: found.type,
      what: found.what,
      tools: toolsOnly(offered).map(({ nativeName }) => nativeName),
      prompts,
      templates,
      warnings: importWarnings(seen, wanted),
      trust,
    })
    return
  }
  const running = await registry.runningServer()
  output.done(
    `${key} is added. ${running === undefined ? '"collet serve" serves it' : `The server on ${running} serves it now`}; "collet connect CLIENT" shows how to connect your MCP client.`,
  )
}

async function findTarget(
  target: ImportTarget,
  work: TargetWork,
  context: CommandContext,
): Promise<FoundSource> {
  const { args, send } = work
  const apiKey = await readApiKey(target, args, context)
  const only = args.oneOf('type', IMPORT_TYPES)
  const signal = AbortSignal.any([work.signal, AbortSignal.timeout(DETECTION_TIMEOUT_MS)])
  const onStep = (text: string): void => context.output.note(text)
  const { found, seen, isUnreachable } = await detectSource(target, { send, signal, apiKey, only, onStep })
  if (isUnreachable === true)
    throw new CommandFailure(
      EXIT.server,
      `${seen.map(cleanText).join(' ')} Is it running, and are the address and the port right?`,
    )
  if (found !== undefined) return found
  for (const line of seen) context.output.warn(cleanText(line))
  const message = `${args.positionals.join(' ')} cannot be imported: it is not MCP, OpenAPI, OTC or OpenTool.`
  throw new CommandFailure(EXIT.usage, message)
}

function withVariables(found: FoundSource, env: Readonly<Record<string, string>>): FoundSource {
  if (Object.keys(env).length === 0) return found
  if (found.options.command === undefined)
    throw new UsageError('--env is for a program; an address gets its key with --api-key.')
  return { ...found, options: { ...found.options, env: { ...env } } }
}

/** Checks `--key` before anything is started. */
async function checkKey(key: string | undefined, { args, registry }: TargetWork): Promise<void> {
  if (key === undefined) return
  if (!isSourceKey(key)) throw new UsageError(`--key expects 1 to 64 letters, digits and "_"; got "${key}".`)
  if (!args.flag('print')) await refuseConfigured(key, registry)
}

async function readApiKey(
  target: ImportTarget,
  args: Arguments<ImportOption>,
  context: CommandContext,
): Promise<string | undefined> {
  if (!args.flag('api-key')) return undefined
  if (!args.flag('yes') && !args.flag('print'))
    throw new UsageError(
      'With --api-key the key is read from stdin, so the command cannot ask questions: add --yes or --print.',
    )
  if (target.kind !== 'url') throw new UsageError('--api-key can only be used with an address.')
  const { protocol, hostname } = new URL(target.url)
  if (protocol === 'http:' && !isLoopback(hostname))
    throw new UsageError('A key is not sent over plain http. Use the https address.')
  return await readHidden(context, 'Key')
}

async function readTools(
  target: ImportTarget,
  found: FoundSource,
  { choices, send, signal }: TargetWork,
  { output, clock, workingFolder, environment }: CommandContext,
): Promise<Discovery> {
  if (target.kind === 'command')
    output.note(`Starting ${cleanText(target.words.join(' '))} (up to ${choices.startSeconds} s)`)
  const onLine = (line: string): void => output.note(`  | ${line}`)
  const services = { fetch: send, clock, folder: workingFolder, environment: environment.variables() }
  const previewing = previewSource(suggestKey(found), found.options, { services, signal, onLine })
  const preview = await output.during('Reading its tools', previewing)
  if (preview.kind === 'seen') return preview.discovery
  if (preview.isUsageError) throw new CommandFailure(EXIT.usage, `This source cannot be used: ${preview.why}`)
  const advice = failureAdvice(preview, found.options)
  throw new CommandFailure(
    EXIT.server,
    preview.lacks === 'program'
      ? advice
      : `It looks like ${found.what}, but its tools cannot be read: ${advice} Nothing was added.`,
  )
}

function show(
  key: string,
  found: FoundSource,
  discovery: Discovery,
  options: JsonObject,
  { output }: CommandContext,
): void {
  const tools = toolsOnly(discovery.tools)
  const count = countsText(countOffered(discovery.tools))
  output.note(`Found ${cleanText(found.what)}, ${count}, as "${key}":`)
  for (const { nativeName, description } of tools.slice(0, MAX_SHOWN)) {
    const [line = ''] = description.split('\n')
    output.note(`  ${cleanText(nativeName)}  ${cleanText(shortened(line))}`)
  }
  if (tools.length > MAX_SHOWN) output.note(`  and ${tools.length - MAX_SHOWN} more`)
  for (const warning of [...(found.notes ?? []), ...importWarnings(discovery, options)])
    output.warn(cleanText(warning))
}

function toolsOnly(offered: Discovery['tools']): Discovery['tools'] {
  return offered.filter(({ entry }) => entry === undefined)
}

const MAX_LINE_LENGTH = 100

function shortened(line: string): string {
  if (line.length <= MAX_LINE_LENGTH) return line
  const cut = line.slice(0, MAX_LINE_LENGTH)
  return `${cut.slice(0, cut.lastIndexOf(' ') + 1 || MAX_LINE_LENGTH).trimEnd()}…`
}

/** Replaces secrets by placeholders. */
function withoutSecrets(options: JsonObject): JsonObject {
  const { apiKey, headers, env, ...rest } = options
  return {
    ...rest,
    ...defined({
      apiKey: apiKey && '<the key>',
      headers: headers && { Authorization: 'Bearer <the key>' },
      env: isJsonObject(env)
        ? Object.fromEntries(Object.keys(env).map((name) => [name, `<the value of ${name}>`]))
        : undefined,
    }),
  }
}

function readTarget(args: Arguments<ImportOption>, { workingFolder }: CommandContext): ImportTarget {
  const { positionals: words, afterDashes } = args
  const [first = ''] = words
  if (words.length === 0)
    throw new UsageError('Name what to import: --from CLIENT, a URL, a file, or -- and a program.')
  if (afterDashes !== undefined && afterDashes.length === words.length)
    return { kind: 'command', words, folder: workingFolder }
  if (words.length > 1 && /^https?:\/\//.test(first)) throw new UsageError('Import one address at a time.')
  if (words.length === 1) {
    const url = URL.parse(first)
    if (url !== null && /^https?:$/.test(url.protocol)) return { kind: 'url', url: checkedUrl(first, url) }
    const file = resolve(workingFolder, first)
    if (existsSync(file)) return { kind: 'file', file }
    if (/[./\\]/.test(first))
      throw new UsageError(`There is no file ${file}, and it is not an http or https URL.`)
  }
  return { kind: 'command', words, folder: workingFolder }
}

function checkedUrl(text: string, url: URL): string {
  if (url.username !== '' || url.password !== '')
    throw new UsageError('Leave the password out of the URL; --api-key reads a key from stdin.')
  if (url.hash !== '') throw new UsageError('Leave out the # and what follows it in the URL.')
  return text
}

export const COMMANDS = [importSource]
