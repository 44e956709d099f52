import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { isToolError } from '#kernel/base/errors'
import { shownAddress } from '#sources/kit/source-facts'
import { CATALOG_PATH, isCatalogAddress, probeCatalog } from './ai-catalog.ts'
import {
  addressBelow,
  type FoundSource,
  type ImportType,
  type ProbeContext,
  probeDocument,
  probeMcp,
  probeOpenTool,
  probeOpenwop,
  probeOtc,
  probeUsualPaths,
  readHead,
  recognizeDocument,
} from './probe.ts'

/**
 * Detects what an address, a file or a command is, and suggests the key of its source. `collet import` and the console
 * (`source-probe.ts`) use it. Invariant: detection starts no program; a command is assumed to be an MCP server, and only
 * the preview starts it.
 */

export type ImportTarget =
  | { readonly kind: 'url'; readonly url: string }
  /** `file` is absolute. */
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'command'; readonly words: readonly string[]; readonly folder: string }

export interface Detection {
  readonly found: FoundSource | undefined
  /** Findings of the probes, for an operator who expected another result. */
  readonly seen: readonly string[]
  /** The server cannot be reached, so its kind is unknown. */
  readonly isUnreachable?: true
}

export interface DetectOptions extends ProbeContext {
  /** Tries only probes for this type. */
  readonly only?: ImportType | undefined
  onStep(text: string): void
}

export async function detectSource(target: ImportTarget, options: DetectOptions): Promise<Detection> {
  if (target.kind === 'url') return await detectUrl(target.url, options)
  if (target.kind === 'command') return { found: foundCommand(target.words, target.folder), seen: [] }
  options.onStep(`Reading ${target.file}`)
  return await detectFile(target.file)
}

export async function detectFile(file: string): Promise<Detection> {
  const document = await readHead(await readFile(file, 'utf8'))
  if (document === undefined) {
    const why = `${file} is neither JSON nor YAML. To import a program that speaks MCP: collet import -- node ${file}`
    return { found: undefined, seen: [why] }
  }
  const result = recognizeDocument(document, { file })
  if (result.kind === 'found') return { found: result.source, seen: [] }
  const why =
    result.kind === 'unusable' ? result.why : `${file} is not an OpenAPI, Swagger or OpenTool document.`
  return { found: undefined, seen: [why] }
}

interface Step {
  /** The types that the probe can find; empty if it can only explain why the address cannot be imported. */
  readonly finds: readonly ImportType[]
  readonly text: string
  readonly url: string
  readonly probe: typeof probeMcp
}

const UNREACHABLE = Symbol('unreachable')
const STEP_MS = 15_000

/** Tries the probes in turn: first the probe that the path suggests, last the probes that could mistake another kind of server for theirs. */
export async function detectUrl(url: string, options: DetectOptions): Promise<Detection> {
  const { only, signal, send, apiKey, onStep } = options
  const seen: string[] = []
  for (const { finds, text, url: address, probe } of stepsFor(url)) {
    if (only !== undefined && !finds.includes(only)) continue
    signal.throwIfAborted()
    onStep(text)
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(STEP_MS)])
    const result = await probe(address, { send, apiKey, signal: deadline }).catch(refusalOf)
    signal.throwIfAborted()
    // Every other probe would send its request to the same host.
    if (result === UNREACHABLE)
      return { found: undefined, seen: [`${new URL(url).host} cannot be reached.`], isUnreachable: true }
    if (typeof result === 'string') seen.push(`${text}: ${result.replaceAll(address, shownAddress(address))}`)
    else if (result.kind === 'unusable') seen.push(result.why)
    else if (result.kind === 'found' && (only ?? result.source.type) === result.source.type)
      return { found: result.source, seen }
  }
  return { found: undefined, seen: [...new Set(seen)] }
}

/** A probe that fails only shows that the address is not of its kind. */
function refusalOf(error: unknown): string | typeof UNREACHABLE {
  if (!(error instanceof Error)) return 'no answer'
  if (isUnreachable(error) || isUnreachable(error.cause)) return UNREACHABLE
  return 'developerMessage' in error && typeof error.developerMessage === 'string'
    ? error.developerMessage
    : error.message
}

/** The guarded fetch allows a retry only if no connection was made (rule 9). */
function isUnreachable(error: unknown): boolean {
  return isToolError(error) && error.code === 'upstream_failed' && error.canRetry
}

/** Texts name addresses without user, password and query, because they are shown and logged. */
function stepsFor(url: string): readonly Step[] {
  const { pathname } = new URL(url)
  const below = addressBelow(url, '/mcp')
  const shown = shownAddress(url)
  const step = (finds: readonly ImportType[], text: string, probe: Step['probe'], at = url): Step => ({
    ...{ finds, text, probe, url: at },
  })
  const document = step(['openapi', 'opentool'], `Reading ${shown}`, probeDocument)
  const mcp = step(['mcp'], `Asking ${shown} for MCP`, probeMcp)
  const otc = step(['otc'], `Asking ${shown} for OTC`, probeOtc)
  const opentool = step(['opentool'], `Asking ${shown} for OpenTool`, probeOpenTool)
  const rest = [
    step(['mcp'], `Asking ${shownAddress(below)} for MCP`, probeMcp, below),
    step(['openapi', 'opentool'], `Looking for an OpenAPI document at ${shown}`, probeUsualPaths),
    step(['mcp'], `Looking for an AI catalog at ${shown}`, probeCatalog, new URL(CATALOG_PATH, url).href),
    step([], `Asking ${shown} for openwop`, probeOpenwop),
  ]
  if (isCatalogAddress(url)) return [step(['mcp'], `Reading ${shown}`, probeCatalog), document, ...rest]
  if (/\/(?:mcp|sse)\/?$/.test(pathname)) return [mcp, document, otc, opentool, ...rest]
  if (/\/opentool(?:\/|$)/.test(pathname)) return [opentool, document, mcp, otc, ...rest]
  return [document, otc, opentool, mcp, ...rest]
}

/** A program is assumed to be an MCP server on stdio until the preview shows otherwise. */
export function foundCommand([command = '', ...args]: readonly string[], cwd: string): FoundSource {
  return {
    type: 'mcp',
    options: { type: 'mcp', command, ...(args.length === 0 ? {} : { args }), cwd },
    what: 'an MCP server (stdio)',
    name: programName(command, args),
  }
}

const LAUNCHERS = ['npx', 'node', 'uvx', 'uv', 'bunx', 'deno', 'python', 'python3']

/** Returns `server-files` for `npx -y @scope/server-files@1.2 /data`. */
function programName(command: string, args: readonly string[]): string {
  const program = basename(command)
  if (!LAUNCHERS.includes(program)) return program
  const launched = args.find((word) => !word.startsWith('-') && word !== 'run') ?? program
  return basename(launched.replace(/(?<=.)@[^/]*$/, '')).replace(/\.[cm]?[jt]s$|\.py$/, '')
}

const KEY = /^[A-Za-z0-9_]{1,64}$/
const MAX_KEY_LENGTH = 32
/** Words that do not distinguish a service. */
const EMPTY_WORDS =
  /^(?:api|www|mcp|server|openapi|swagger|spec|specification|official|com|org|net|io|dev|app|the|of|for|rest|v\d+)$/i

export function isSourceKey(text: string): boolean {
  return KEY.test(text)
}

/** A key for a source, made from its own name or its address. The key becomes the toolkit of its tools. */
export function suggestKey({ name, options }: Pick<FoundSource, 'name' | 'options'>): string {
  const { url, file } = options
  const origin = typeof url === 'string' ? new URL(url).hostname : typeof file === 'string' ? file : ''
  return keyFrom(name ?? '') ?? keyFrom(origin) ?? 'Imported'
}

/** The distinguishing words of a text as a key; `undefined` if it has none. */
export function keyFrom(text: string): string | undefined {
  // The part after a plus is an addition: "GitHub's official OpenAPI spec + Octokit extension".
  const [main = ''] = text.split(' + ')
  return joinWords(wordsIn(main).filter((word) => !EMPTY_WORDS.test(word) && !/^\d+$/.test(word)))
}

/** A name that a person chose as a key, with all its words; `undefined` if it has no letter or digit. */
export function keyFromName(name: string): string | undefined {
  return joinWords(wordsIn(name))
}

/** Splits a text into words; `GitHub's` is the word `GitHub`. */
function wordsIn(text: string): readonly string[] {
  return text
    .replaceAll(/['\u2019]s\b/g, '')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
}

/** Joins as many whole words as fit into a key. */
function joinWords(words: readonly string[]): string | undefined {
  let key = ''
  for (const word of words) {
    const next = `${key}${word.charAt(0).toUpperCase()}${word.slice(1)}`
    if (key !== '' && next.length > MAX_KEY_LENGTH) break
    key = next
  }
  return key === '' ? undefined : key.slice(0, MAX_KEY_LENGTH)
}
