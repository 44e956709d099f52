import { parseArgs } from 'node:util'
import { UsageError } from '#cli/usage-error'

/** What `collet opentool start` was asked for. */
export interface StartRequest {
  readonly kind: 'start'
  readonly version: string | undefined
  readonly port: number | undefined
  readonly keys: readonly string[]
  readonly host: string | undefined
  readonly config: string | undefined
  readonly store: string | undefined
  readonly streaming: boolean
  readonly allowStop: boolean
}

export type OpenToolRequest =
  | StartRequest
  | { readonly kind: 'help' }
  | { readonly kind: 'unknown'; readonly word: string }

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
  // How the OpenTool daemon launches servers, without the word `start` (OTS-56).
  opentoolServerTag: { type: 'string' },
  opentoolServerHost: { type: 'string' },
  opentoolServerPort: { type: 'string' },
  opentoolServerApiKeys: { type: 'string', multiple: true },
} as const

const LARGEST_PORT = 65_535
const HEADER_SAFE = /^[\x21-\x7e]+$/

/** Reads what follows `collet opentool`; without a word for what to do, it starts (OTS-70 to OTS-72). */
export function readOpenToolRequest(argv: readonly string[]): OpenToolRequest {
  const [first] = argv
  const isCommand = first !== undefined && !first.startsWith('-')
  if (isCommand && first === 'help') return { kind: 'help' }
  if (isCommand && first !== 'start') return { kind: 'unknown', word: first }
  const { values } = parse(isCommand ? argv.slice(1) : argv)
  if (values.help === true) return { kind: 'help' }
  return {
    kind: 'start',
    version: values.version ?? values.opentoolServerTag,
    port: readPort(values.toolPort ?? values.opentoolServerPort),
    // The daemon's Dart servers split keys at commas; ours are taken as they are (OTS-70).
    keys: readKeys([...(values.apiKeys ?? []), ...splitKeys(values.opentoolServerApiKeys ?? [])]),
    host: values.host ?? values.opentoolServerHost,
    config: values.config,
    store: values.store,
    streaming: values.stream ?? false,
    allowStop: values.allowStop ?? false,
  }
}

export function splitKeys(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => text.split(','))
}

/** Empty keys count as none (OTS-47); one key given twice is one. The text of a bad key is not repeated. */
export function readKeys(texts: readonly string[]): readonly string[] {
  const keys = [...new Set(texts.map((text) => text.trim()).filter((text) => text !== ''))]
  if (keys.every((key) => HEADER_SAFE.test(key))) return keys
  throw new UsageError('An API key travels in a header: printable ASCII without spaces.')
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port >= 1 && port <= LARGEST_PORT) return port
  throw new UsageError(`--toolPort expects a port from 1 to ${LARGEST_PORT}, got "${text}".`)
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, strict: true, allowPositionals: false })
  } catch (error) {
    // Node names the option, and says how to write a value that begins with a dash.
    throw new UsageError(error instanceof Error ? error.message : 'The arguments cannot be read.')
  }
}
