import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { isToolError } from '#kernel/base/errors'
import { shownAddress } from '#sources/kit/source-facts'
import {
  addressBelow,
  type FoundSource,
  type ImportType,
  type Look,
  lookAtDocument,
  type Probe,
  probeDocument,
  probeMcp,
  probeOpenTool,
  probeOpenwop,
  probeOtc,
  probeUsualPlaces,
  readHead,
} from './probe.ts'

const KEY = /^[A-Za-z0-9_]{1,64}$/
const MAX_KEY_LENGTH = 32
/** Words that say nothing about a service. */
const EMPTY_WORDS =
  /^(?:api|www|mcp|server|openapi|swagger|spec|specification|official|com|org|net|io|dev|app|the|of|for|rest|v\d+)$/i

export function isSourceKey(text: string): boolean {
  return KEY.test(text)
}

/** A key for a source, from what it calls itself or where it is: the toolkit of its tools. */
export function suggestKey({ name, options }: Pick<FoundSource, 'name' | 'options'>): string {
  const { url, file } = options
  const place = typeof url === 'string' ? new URL(url).hostname : typeof file === 'string' ? file : ''
  return keyFrom(name ?? '') ?? keyFrom(place) ?? 'Imported'
}

/** The words of a text that say something, as a key; `undefined` when none does. */
export function keyFrom(text: string): string | undefined {
  // What is behind a plus is an addition: "GitHub's official OpenAPI spec + Octokit extension".
  const [main = ''] = text.split(' + ')
  return joined(wordsIn(main).filter((word) => !EMPTY_WORDS.test(word) && !/^\d+$/.test(word)))
}

/** A name that a person chose, as a key: all its words stay. `undefined` when it has no letter or digit. */
export function keyFromName(name: string): string | undefined {
  return joined(wordsIn(name))
}

/** `GitHub's` is the word `GitHub`. */
function wordsIn(text: string): readonly string[] {
  return text
    .replaceAll(/['\u2019]s\b/g, '')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
}

/** As many whole words as fit. */
function joined(words: readonly string[]): string | undefined {
  let key = ''
  for (const word of words) {
    const next = `${key}${word.charAt(0).toUpperCase()}${word.slice(1)}`
    if (key !== '' && next.length > MAX_KEY_LENGTH) break
    key = next
  }
  return key === '' ? undefined : key.slice(0, MAX_KEY_LENGTH)
}

/** What a file is: a description of a service. `file` is absolute. */
export async function detectFile(file: string): Promise<Detection> {
  const document = await readHead(await readFile(file, 'utf8'))
  if (document === undefined) {
    const why = `${file} is neither JSON nor YAML. To import a program that speaks MCP: collet import -- node ${file}`
    return { found: undefined, seen: [why] }
  }
  const look = lookAtDocument(document, { file })
  if (look.kind === 'found') return { found: look.source, seen: [] }
  const why = look.kind === 'unusable' ? look.why : `${file} is not an OpenAPI, Swagger or OpenTool document.`
  return { found: undefined, seen: [why] }
}

export interface Detection {
  readonly found: FoundSource | undefined
  /** What was seen on the way, for a person who expected something else. */
  readonly seen: readonly string[]
  /** Nobody is there at all, so nothing is known of what it would be. */
  readonly isAway?: true
}

export interface DetectUrlOptions extends Omit<Probe, 'signal'> {
  readonly signal: AbortSignal
  /** Looks for this alone. */
  readonly only?: ImportType
  /** Called before each look. */
  onStep(text: string): void
}

interface Step {
  /** What it can find; nothing = only what to say. */
  readonly finds: readonly ImportType[]
  readonly text: string
  readonly url: string
  look(url: string, probe: Probe): Promise<Look>
}

const UNREACHABLE = Symbol('unreachable')
const STEP_MS = 15_000

/** What an address is, by asking it: what its path suggests first, what could be mistaken last. */
export async function detectUrl(url: string, options: DetectUrlOptions): Promise<Detection> {
  const { only, signal, send, apiKey, onStep } = options
  const seen: string[] = []
  for (const { finds, text, url: address, look } of stepsFor(url)) {
    if (only !== undefined && !finds.includes(only)) continue
    signal.throwIfAborted()
    onStep(text)
    const result = await attempt(address, look, {
      send,
      apiKey,
      signal: AbortSignal.any([signal, AbortSignal.timeout(STEP_MS)]),
    })
    signal.throwIfAborted()
    // Whatever else could be asked for is at the same place.
    if (result === UNREACHABLE)
      return { found: undefined, seen: [`${new URL(url).host} cannot be reached.`], isAway: true }
    if (typeof result === 'string') seen.push(`${text}: ${result.replaceAll(address, shownAddress(address))}`)
    else if (result.kind === 'unusable') seen.push(result.why)
    else if (result.kind === 'found' && (only ?? result.source.type) === result.source.type)
      return { found: result.source, seen }
  }
  return { found: undefined, seen: [...new Set(seen)] }
}

/** A look that fails says only that it is not this. */
async function attempt(
  url: string,
  look: Step['look'],
  probe: Probe,
): Promise<Look | string | typeof UNREACHABLE> {
  try {
    return await look(url, probe)
  } catch (error) {
    if (isUnreachable(error) || (error instanceof Error && isUnreachable(error.cause))) return UNREACHABLE
    return error instanceof Error ? detailOf(error) : 'no answer'
  }
}

/** The guarded fetch says so only when no connection was made (rule 9). */
function isUnreachable(error: unknown): boolean {
  return isToolError(error) && error.code === 'upstream_failed' && error.canRetry
}

function detailOf(error: Error): string {
  return 'developerMessage' in error && typeof error.developerMessage === 'string'
    ? error.developerMessage
    : error.message
}

/** Texts name addresses without user, password and query: they are shown and logged. */
function stepsFor(url: string): readonly Step[] {
  const { pathname } = new URL(url)
  const below = addressBelow(url, '/mcp')
  const shown = shownAddress(url)
  const document: Step = {
    ...{ finds: ['openapi', 'opentool'], text: `Reading ${shown}` },
    ...{ url, look: probeDocument },
  }
  const mcp: Step = { finds: ['mcp'], text: `Asking ${shown} for MCP`, url, look: probeMcp }
  const otc: Step = { finds: ['otc'], text: `Asking ${shown} for OTC`, url, look: probeOtc }
  const opentool: Step = {
    ...{ finds: ['opentool'], text: `Asking ${shown} for OpenTool` },
    ...{ url, look: probeOpenTool },
  }
  const rest: readonly Step[] = [
    { finds: ['mcp'], text: `Asking ${shownAddress(below)} for MCP`, url: below, look: probeMcp },
    { ...document, text: `Looking for an OpenAPI document at ${shown}`, look: probeUsualPlaces },
    { finds: [], text: `Asking ${shown} for openwop`, url, look: probeOpenwop },
  ]
  if (/\/(?:mcp|sse)\/?$/.test(pathname)) return [mcp, document, otc, opentool, ...rest]
  if (/\/opentool(?:\/|$)/.test(pathname)) return [opentool, document, mcp, otc, ...rest]
  return [document, otc, opentool, mcp, ...rest]
}

/** A program is taken for an MCP server on its standard input and output; looking at its tools will tell. */
export function foundCommand(words: readonly string[], cwd: string): FoundSource {
  const [command = '', ...args] = words
  return {
    type: 'mcp',
    options: { type: 'mcp', command, ...(args.length === 0 ? {} : { args: [...args] }), cwd },
    what: 'an MCP server (stdio)',
    name: nameOf(command, args),
    notes: [],
  }
}

const LAUNCHERS: ReadonlySet<string> = new Set([
  'npx',
  'node',
  'uvx',
  'uv',
  'bunx',
  'deno',
  'python',
  'python3',
])

/** `npx -y @scope/server-files@1.2 /data` is `server-files`. */
function nameOf(command: string, args: readonly string[]): string {
  const program = basename(command)
  if (!LAUNCHERS.has(program)) return program
  const meant = args.find((word) => !word.startsWith('-') && word !== 'run') ?? program
  return basename(meant.replace(/(?<=.)@[^/]*$/, '')).replace(/\.[cm]?[jt]s$|\.py$/, '')
}
