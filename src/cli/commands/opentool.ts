import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import {
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type ExitCode,
  UsageError,
} from '#cli/command'
import { exampleOpenToolCurl } from '#cli/serving/example-call'
import { CONFIG_OPTION, loadProject, loadSettings } from '#cli/store-access'
import type { ApiKeySettings, Settings } from '#config/settings'
import { cleanJson, cleanText, defined } from '#kernel/base/json'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { DEFAULT_PORT } from '#protocols/opentool/wire'
import { VERSION } from '#server/version'
import { STORE_FORMS } from '#store/stores'
import { serveUntilStopped } from './serve.ts'

/**
 * `collet opentool` (start), `opentool validate` and `opentool export`. The first follows the OpenTool command-line
 * guidelines, so it parses its own arguments and has its own help and exit codes (OTS-70 to OTS-76). Invariant: keys
 * from the command line act as one principal that may only call tools.
 */

const INDENT = 2
/** Conversion losses that a reader of the document should know. */
const REPORTED_SEVERITIES: ReadonlySet<string> = new Set(['approximated', 'unrepresentable'])

const opentoolExport = defineCommand<'config' | 'title' | 'version' | 'description' | 'url' | 'strict'>({
  name: 'opentool export',
  summary: 'Prints an OpenTool document that describes the newest version of each tool of a config.',
  details: ['What OpenTool cannot express exactly is noted on stderr, tool by tool.'],
  options: {
    config: CONFIG_OPTION,
    title: { value: 'T', help: 'Title of the document. Default: the title in the config, or Collet.' },
    version: {
      value: 'V',
      help: 'Version of the document. Default: the version in the config, or that of this program.',
    },
    description: {
      value: 'D',
      help: 'Description of the document. Default: the one in the config, or none.',
    },
    url: { value: 'U', help: 'Server to name in the document.' },
    strict: { help: 'Exit code 1 if a tool is left out or can only be described approximately.' },
  },
  examples: [
    'collet opentool export > opentool.json',
    'collet opentool export --title Mail --version 2.1.0 --strict',
  ],
  async run(args, context) {
    const { output, json } = context
    const { loaded, tools } = await loadProject(args.text('config'), context)
    const { documentOf } = await import('#protocols/opentool/codec-convert-tools')
    const { opentool } = loaded.config
    const info = defined({
      title: args.text('title') ?? opentool.title,
      description: args.text('description') ?? opentool.description,
      version: args.text('version') ?? opentool.version ?? VERSION,
    })
    const url = args.text('url')
    const options = url === undefined ? {} : { server: { url } }
    const { document, losses, skipped } = documentOf(tools, info, options)
    const reported = losses.filter(({ severity }) => REPORTED_SEVERITIES.has(severity))
    for (const { toolId, side, pointer, keyword, severity } of reported)
      output.warn(cleanText(`${toolId}: ${side}${pointer}: ${keyword} is ${severity}`))
    for (const { id } of skipped) output.warn(`${id} is left out: OpenTool cannot describe it.`)
    output.data(cleanJson(document, json ? 0 : INDENT))
    return args.flag('strict') && (reported.length > 0 || skipped.length > 0) ? EXIT.toolFailed : EXIT.ok
  },
})

const OPTIONS = {
  version: { type: 'string', short: 'v' },
  toolPort: { type: 'string', short: 't' },
  apiKeys: { type: 'string', short: 'k', multiple: true },
  host: { type: 'string' },
  config: { type: 'string' },
  store: { type: 'string' },
  stream: { type: 'boolean' },
  allowStop: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  // The OpenTool daemon launches servers without the word `start` (OTS-56).
  opentoolServerTag: { type: 'string' },
  opentoolServerHost: { type: 'string' },
  opentoolServerPort: { type: 'string' },
  opentoolServerApiKeys: { type: 'string', multiple: true },
} as const

const MAX_PORT = 65_535
const HEADER_SAFE = /^[\x21-\x7e]+$/

/** Parses the words after `collet opentool`; without a command the server is started (OTS-70 to OTS-72). */
function readOpenToolRequest(argv: readonly string[]) {
  const [first] = argv
  const isCommand = first !== undefined && !first.startsWith('-')
  if (isCommand && first === 'help') return { kind: 'help' as const }
  if (isCommand && first !== 'start') return { kind: 'unknown' as const, word: first }
  const { values } = parse(isCommand ? argv.slice(1) : argv)
  if (values.help === true) return { kind: 'help' as const }
  return {
    kind: 'start' as const,
    version: values.version ?? values.opentoolServerTag,
    port: readPort(values.toolPort ?? values.opentoolServerPort),
    // The daemon's Dart servers split keys at commas; keys from `--apiKeys` are taken unchanged (OTS-70).
    keys: readKeys([...(values.apiKeys ?? []), ...splitKeys(values.opentoolServerApiKeys ?? [])]),
    host: values.host ?? values.opentoolServerHost,
    config: values.config,
    store: values.store,
    streaming: values.stream ?? false,
    allowStop: values.allowStop ?? false,
  }
}

type OpenToolRequest = ReturnType<typeof readOpenToolRequest>
type StartRequest = Extract<OpenToolRequest, { readonly kind: 'start' }>

function splitKeys(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => text.split(','))
}

/** Empty keys are ignored (OTS-47), duplicates count once. Messages never repeat the text of an invalid key. */
function readKeys(texts: readonly string[]): readonly string[] {
  const keys = [...new Set(texts.map((text) => text.trim()).filter((text) => text !== ''))]
  if (keys.every((key) => HEADER_SAFE.test(key))) return keys
  throw new UsageError('An API key is sent in a header, so it must be printable ASCII without spaces.')
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port >= 1 && port <= MAX_PORT) return port
  throw new UsageError(`--toolPort expects a port from 1 to ${MAX_PORT}, got "${text}".`)
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, strict: true, allowPositionals: false })
  } catch (error) {
    // Node's message names the option and explains values that begin with a dash.
    throw new UsageError(error instanceof Error ? error.message : 'The arguments cannot be read.')
  }
}

/** Display name and command that the guidelines require (OTS-73). */
const NAME = 'COLLET'
const COMMAND = 'collet opentool'

/** The help text that the guidelines prescribe (OTS-71). */
const START_HELP = `${NAME} OpenTool Server CLI (${VERSION}) - OpenTool Server implement by ${NAME}.

Usage: ${COMMAND} <command> [options]

Available commands:

Command: start
  -v, --version     Version that /version answers, Default: as the config says, or ${VERSION}
  -t, --toolPort    Port to listen on, Default: ${DEFAULT_PORT}
  -k, --apiKeys     API key, may be repeated: --apiKeys KEY_A --apiKeys KEY_B, Default: COLLET_OPENTOOL_KEYS, or none
      --host        Address to listen on, Default: as the config says, or 127.0.0.1
      --config      Config with the tools, Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here
      --store       ${STORE_FORMS}, Default: as the config says
      --stream      Serve /streamCall too, Default: as the config says, or no
      --allowStop   Serve /stop too, if there are keys, Default: no

Command: validate FILE...
  Checks OpenTool documents; see ${COMMAND} validate --help

Command: export
  Prints an OpenTool document of the tools of a config; see ${COMMAND} export --help

Global options:

-h, --help    Show help information`

/** Runs `collet opentool …` as the guidelines define, including exit codes (OTS-70 to OTS-76). */
async function runOpenToolCommand(argv: readonly string[], context: CommandContext): Promise<ExitCode> {
  const { output, environment } = context
  let request: OpenToolRequest
  let keys: readonly string[] = []
  try {
    request = readOpenToolRequest(argv)
    if (request.kind === 'start') {
      keys = request.keys
      if (keys.length === 0) keys = readKeys(splitKeys([environment.opentoolKeys?.reveal() ?? '']))
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    output.error(cleanText(error.message))
    output.data(START_HELP)
    return EXIT.opentoolUsage
  }
  if (request.kind === 'start') return await start(request, keys, context)
  if (request.kind === 'unknown') output.error(`Unknown command: ${cleanText(request.word)}`)
  output.data(START_HELP)
  return request.kind === 'help' ? EXIT.ok : EXIT.toolFailed
}

async function start(
  request: StartRequest,
  keys: readonly string[],
  context: CommandContext,
): Promise<ExitCode> {
  const { host, store, port = DEFAULT_PORT } = request
  const settings = await loadSettings(request.config, defined({ host, port, store }), context)
  const opentool = {
    ...settings.opentool,
    version: request.version ?? settings.opentool.version,
    streaming: request.streaming || settings.opentool.streaming,
  }
  return await serveUntilStopped(
    withKeys({ ...settings, opentool }, keys),
    { allowAnonymous: false, allowStop: request.allowStop, example: exampleOpenToolCurl },
    context,
  )
}

/**
 * The holders of command-line keys are unknown: all act as one principal, `key:opentool`, which may call every tool
 * of the config and do nothing else.
 */
function withKeys(settings: Settings, keys: readonly string[]): Settings {
  const known = new Set(settings.auth.apiKeys.map(({ key }) => key.reveal()))
  const scopes = [...new Set(settings.tools.flatMap(({ policy }) => policy.scopes))]
  const added = keys
    .filter((key) => !known.has(key))
    .map((key): ApiKeySettings => ({ id: 'opentool', key: new Secret(key), tenant: DEFAULT_TENANT, scopes }))
  return { ...settings, auth: { ...settings.auth, apiKeys: [...settings.auth.apiKeys, ...added] } }
}

const opentoolStart = defineCommand<never>({
  name: 'opentool',
  summary: 'Starts an OpenTool server (opentool start), following the OpenTool command-line guidelines.',
  options: {},
  examples: [],
  rawArgs: { help: START_HELP, run: runOpenToolCommand },
  run: (_, context) => runOpenToolCommand([], context),
})

const opentoolValidate = defineCommand<'lenient'>({
  name: 'opentool validate',
  summary: 'Checks OpenTool documents and prints all findings.',
  details: [
    'One line per finding: file, JSON Pointer, level, rule, text. Exit code 1 if any document has an error, for use in CI.',
  ],
  positionals: [{ name: 'FILE', many: true, help: 'JSON file with an OpenTool document.' }],
  options: {
    lenient: { help: 'Tolerate errors that a reader can repair; for documents written by others.' },
  },
  examples: [
    'collet opentool validate opentool.json',
    'collet opentool validate --lenient --json a.json b.json',
  ],
  async run(args, { output, json, workingFolder }) {
    const { validate } = await import('#protocols/opentool/codec-document-read')
    const mode = args.flag('lenient') ? 'lenient' : 'strict'
    let isValid = true
    for (const file of args.positionals) {
      const findings = validate(await read(resolve(workingFolder, file)), { mode })
      const hasErrors = findings.some(({ level }) => level === 'error')
      isValid &&= !hasErrors
      if (json) output.json({ file, valid: !hasErrors, findings })
      else {
        for (const { path, level, rule, message } of findings) {
          output.data(cleanText(`${file}: ${path || '(document)'}: ${level} ${rule}: ${message}`))
        }
        output.note(cleanText(`${file}: ${hasErrors ? 'not valid' : 'valid'}`))
      }
    }
    return isValid ? EXIT.ok : EXIT.toolFailed
  },
})

async function read(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file)
  } catch (cause) {
    throw new CommandFailure(EXIT.usage, `${file} cannot be read.`, { cause })
  }
}

export const COMMANDS = [opentoolStart, opentoolValidate, opentoolExport]
