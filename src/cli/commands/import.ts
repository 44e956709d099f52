import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { AdminClient } from '#cli/admin-client'
import {
  Arguments,
  type Command,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type ExitCode,
  UsageError,
} from '#cli/command'
import { confirm, readHidden } from '#cli/input'
import { loadProjectConfig, STORE_OPTIONS } from '#cli/store-access'
import { suspicionsOf } from '#core/imports/suspicions'
import { cleanText, type JsonObject } from '#core/json'
import type { Discovery, OfferedTool } from '#core/ports/source'
import { SILENT_LOGGER } from '#core/runtime'
import { createSourceRoutes } from '#server/admin/sources'
import { type Detection, isSourceKey, suggestKey } from '#server/import/detect'
import { type FoundSource, IMPORT_TYPES, type ImportType } from '#server/import/probe'
import { isLoopback } from '#server/safety'

type ImportOption =
  | 'key'
  | 'type'
  | 'api-key'
  | 'replace'
  | 'yes'
  | 'print'
  | 'url'
  | 'credential'
  | keyof typeof STORE_OPTIONS

const MOST_SHOWN = 20
const PATIENCE_MS = 120_000

const importSource = defineCommand<ImportOption>({
  name: 'import',
  summary: 'Imports a source of tools: finds out what it is, shows its tools and adds it to the store.',
  details: [
    'An address is probed for MCP, OpenAPI, OTC, OpenTool and openwop. A file is an OpenAPI, Swagger or OpenTool',
    'document. Anything else is a program that speaks MCP on its standard input and output: write it after --.',
    'Servers on the same store notice within a second. A source in the config with the same key takes precedence.',
    'Only the address that you name may be local; addresses that it refers to may not.',
  ],
  positionals: [{ name: 'TARGET', many: true, help: 'URL, file, or -- and a program with its arguments.' }],
  options: {
    key: {
      value: 'NAME',
      help: 'Key of the source, which is the toolkit of its tools. Default: derived from its name.',
    },
    type: { value: 'T', help: 'What it is, if you know: mcp, openapi, otc or opentool.' },
    'api-key': {
      help: 'Read a key or token for it from stdin, to be stored encrypted. Needs --yes or --print.',
    },
    replace: { help: 'Replace the source that has this key.' },
    yes: { help: 'Add it without asking.' },
    print: { help: 'Only print what to write into the config.' },
    url: { value: 'U', help: 'Add it through this server instead of the store.' },
    credential: {
      value: 'K',
      help: 'With --url: API key with the scope admin:sources. Default: COLLET_API_KEY, or the start token of a server on this machine.',
    },
    ...STORE_OPTIONS,
  },
  examples: [
    'collet import https://tools.example.com --yes',
    'collet import ./openapi.yaml --key Billing --print',
    'collet import --key Files -- npx -y @modelcontextprotocol/server-filesystem /data',
  ],
  async run(args, context) {
    const target = readTarget(args.positionals, context)
    const destination: Destination = {
      url: args.text('url'),
      credential: args.text('credential'),
      store: args.text('store'),
      config: args.text('config'),
    }
    const ending = new AbortController()
    const stopListening = context.onStop(() => ending.abort(new CommandFailure(EXIT.usage, 'Stopped.')))
    const { createImportFetch } = await import('#server/import/probe')
    const send = createImportFetch(target.kind === 'url' ? target.url : undefined)
    try {
      return await importTarget(target, { args, destination, send, signal: ending.signal }, context)
    } finally {
      stopListening()
      await send.close()
    }
  },
})

interface Import {
  readonly args: Arguments<ImportOption>
  readonly destination: Destination
  readonly send: typeof fetch
  readonly signal: AbortSignal
}

async function importTarget(target: ImportTarget, work: Import, context: CommandContext): Promise<ExitCode> {
  const { args, destination, send } = work
  const { output } = context
  const apiKey = await readApiKey(target, args, context)
  const only = args.oneOf('type', IMPORT_TYPES)
  const signal = AbortSignal.any([work.signal, AbortSignal.timeout(PATIENCE_MS)])
  const { found, seen } = await findSource(target, { send, signal, apiKey, only }, context)
  if (found === undefined) throw nothingFound(args.positionals, seen, context)
  const key = chooseKey(args.text('key'), found)
  const isPrinted = args.flag('print')
  if (!isPrinted && (await configuredKeys(destination, context)).has(key)) {
    throw new UsageError(
      `"${key}" is a source in the config, which takes precedence: what you import under this key would never be used. Choose another --key.`,
    )
  }
  const discovery = await output.during(
    'Reading its tools',
    lookInside(key, found, { send, signal }, context),
  )
  if (!context.json) show(key, found, discovery, context)
  if (isPrinted) {
    printSnippet(key, withoutSecrets(found.options), context)
    return EXIT.ok
  }
  if (!args.flag('yes') && !(await confirm(context, `Add it as "${key}"?`))) {
    throw new UsageError('Nothing was added. Use --yes to add it without being asked.')
  }
  await saveSource({ key, options: found.options, replace: args.flag('replace') }, destination, context)
  if (context.json) output.json({ key, ...factsOf(found, discovery) })
  else output.note(`${key} is added; "collet sources" shows its state.`)
  return EXIT.ok
}

async function readApiKey(
  target: ImportTarget,
  args: Arguments<ImportOption>,
  context: CommandContext,
): Promise<string | undefined> {
  if (!args.flag('api-key')) return undefined
  if (!args.flag('yes') && !args.flag('print')) {
    throw new UsageError(
      'With --api-key the key is read from stdin, so there can be no question: add --yes or --print.',
    )
  }
  if (target.kind !== 'url') throw new UsageError('--api-key can only be used with an address.')
  const { protocol, hostname } = new URL(target.url)
  if (protocol === 'http:' && !isLoopback(hostname))
    throw new UsageError('A key is not sent over plain http. Use the https address.')
  return await readHidden(context, 'Key')
}

function nothingFound(
  words: readonly string[],
  seen: readonly string[],
  { output }: CommandContext,
): CommandFailure {
  for (const line of seen) output.warn(cleanText(line))
  const message = `${words.join(' ')} cannot be imported: it is not MCP, OpenAPI, OTC or OpenTool.`
  return new CommandFailure(EXIT.usage, message)
}

function chooseKey(given: string | undefined, found: FoundSource): string {
  const key = given ?? suggestKey(found)
  if (isSourceKey(key)) return key
  throw new UsageError(`--key expects 1 to 64 letters, digits and "_"; got "${key}".`)
}

async function lookInside(
  key: string,
  found: FoundSource,
  { send, signal }: Pick<Import, 'send' | 'signal'>,
  context: CommandContext,
): Promise<Discovery> {
  const { previewSource } = await import('#server/import/probe')
  const services = {
    fetch: send,
    clock: context.clock,
    log: SILENT_LOGGER,
    folder: context.workingFolder,
    environment: context.environment.variables(),
  }
  const preview = await previewSource(key, found.options, { services, signal })
  switch (preview.kind) {
    case 'seen':
      return preview.discovery
    case 'refused':
      throw new CommandFailure(EXIT.usage, `It cannot be used like this: ${preview.problems.join('; ')}`)
    case 'failed':
      throw new CommandFailure(
        EXIT.server,
        `It looks like ${found.what}, but its tools cannot be read: ${preview.why} Nothing was added.`,
      )
  }
}

function show(
  key: string,
  found: FoundSource,
  { tools, warnings }: Discovery,
  context: CommandContext,
): void {
  const { output } = context
  const count = tools.length === 1 ? '1 tool' : `${tools.length} tools`
  output.note(`Found ${cleanText(found.what)}, ${count}, as "${key}":`)
  for (const { nativeName, description } of tools.slice(0, MOST_SHOWN)) {
    const [line = ''] = description.split('\n')
    output.note(`  ${cleanText(nativeName)}  ${cleanText(line.slice(0, 100))}`)
  }
  if (tools.length > MOST_SHOWN) output.note(`  and ${tools.length - MOST_SHOWN} more`)
  for (const warning of [...found.notes, ...warnings, ...tools.flatMap(suspicious)])
    output.warn(cleanText(warning))
}

/** What a person should look at before an agent reads it. */
function suspicious(tool: OfferedTool): readonly string[] {
  return suspicionsOf(tool).map(({ where, says }) => `Suspicious: ${tool.nativeName}, ${where}: ${says}`)
}

function printSnippet(key: string, options: JsonObject, { output, json }: CommandContext): void {
  if (json) output.json({ sources: { [key]: options } })
  else output.data(`"sources": ${JSON.stringify({ [key]: options }, undefined, 2)}`)
}

/** What goes on paper has a gap where the secret is. */
function withoutSecrets(options: JsonObject): JsonObject {
  const { apiKey, headers, ...rest } = options
  return {
    ...rest,
    ...(apiKey === undefined ? {} : { apiKey: '<the key>' }),
    ...(headers === undefined ? {} : { headers: { Authorization: 'Bearer <the key>' } }),
  }
}

function factsOf({ type, what }: FoundSource, { tools, warnings }: Discovery): JsonObject {
  return {
    type,
    what,
    tools: tools.map(({ nativeName }) => nativeName),
    warnings: [...warnings, ...tools.flatMap(suspicious)],
  }
}

/** What the words of `collet import` name. */
type ImportTarget =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'command'; readonly words: readonly string[] }

function readTarget(words: readonly string[], { workingFolder }: CommandContext): ImportTarget {
  const [first = ''] = words
  if (words.length > 1 && /^https?:\/\//.test(first)) throw new UsageError('Import one address at a time.')
  if (words.length === 1) {
    const url = URL.parse(first)
    if (url !== null && /^https?:$/.test(url.protocol)) return { kind: 'url', url: checkedUrl(first, url) }
    const file = resolve(workingFolder, first)
    if (existsSync(file)) return { kind: 'file', file }
    if (/[./\\]/.test(first))
      throw new UsageError(`There is no file ${file}, and it is not an http or https URL.`)
  }
  return { kind: 'command', words }
}

function checkedUrl(text: string, url: URL): string {
  if (url.username !== '' || url.password !== '')
    throw new UsageError('Leave the password out of the URL; --api-key reads a key from stdin.')
  if (url.hash !== '') throw new UsageError('Leave out the # and what follows it in the URL.')
  return text
}

interface FindOptions {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  readonly apiKey: string | undefined
  readonly only: ImportType | undefined
}

/** Finds out what a target is, saying what it does on the way. */
async function findSource(
  target: ImportTarget,
  { send, signal, apiKey, only }: FindOptions,
  { output, workingFolder }: CommandContext,
): Promise<Detection> {
  switch (target.kind) {
    case 'url': {
      const { detectUrl } = await import('#server/import/detect')
      const onStep = (text: string): void => output.note(text)
      const rules = { send, signal, apiKey, onStep, ...(only === undefined ? {} : { only }) }
      return await detectUrl(target.url, rules)
    }
    case 'file': {
      const { detectFile } = await import('#server/import/detect')
      output.note(`Reading ${target.file}`)
      return await detectFile(target.file)
    }
    case 'command': {
      const { foundCommand } = await import('#server/import/detect')
      return { found: foundCommand(target.words, workingFolder), seen: [] }
    }
  }
}

interface Destination {
  /** `--url`: a server that takes it. */
  readonly url: string | undefined
  readonly credential: string | undefined
  readonly store: string | undefined
  readonly config: string | undefined
}

interface NewImport {
  readonly key: string
  readonly options: JsonObject
  readonly replace: boolean
}

/** Adds a source through the server that `--url` names, else in the store, which running servers watch. */
async function saveSource(
  { key, options, replace }: NewImport,
  { url, credential, store, config }: Destination,
  context: CommandContext,
): Promise<void> {
  // On `import`, `--key` is the source's; elsewhere it is the caller's.
  const given = Object.entries({ url, key: credential, store, config })
  const values = given.flatMap(([name, value]) => (value === undefined ? [] : [[name, [value]] as const]))
  const client = new AdminClient(new Arguments([], new Map(values), new Set()), context, {
    asksServer: url !== undefined,
    onStore: ({ store: { sources }, access }) =>
      createSourceRoutes({ store: sources, clock: context.clock, isConfigured: () => false }, access),
  })
  await client.request<{ readonly source: unknown }>(
    { method: 'POST', path: '/admin/sources', body: { key, options, replace } },
    'source',
  )
}

/** Keys of the configuration's own sources, which win; none when no configuration is in play. */
async function configuredKeys(
  { store, config }: Destination,
  context: CommandContext,
): Promise<ReadonlySet<string>> {
  if (store !== undefined && config === undefined) return new Set()
  const loaded: object = (await loadProjectConfig(config, context)).config
  const sources: unknown = 'sources' in loaded ? loaded.sources : undefined
  return new Set(typeof sources === 'object' && sources !== null ? Object.keys(sources) : [])
}

export const COMMANDS: readonly Command[] = [importSource]
