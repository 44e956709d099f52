import { createGuardedFetch, type GuardedFetch } from '#egress/guarded-fetch'
import { isToolError } from '#kernel/base/errors'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { type Logger, SILENT_LOGGER } from '#kernel/base/logger'
import { LONG_LIST, tokensOfTool, tokensText } from '#search/token-count'
import { countOffered } from '#sources/kit/offer-counts'
import { ineffectiveOverrides } from '#sources/kit/overrides'
import {
  type Discovery,
  type MissingPrerequisite,
  MissingPrerequisiteError,
  type OfferedTool,
  type SourceServices,
} from '#sources/kit/source'
import { suspicionsOf } from '#sources/kit/suspicions'
import { openSource, SOURCE_OPTIONS } from '#sources/source-types'

/**
 * The preview of a source before it is added: opens it as a server would, reads its tools and closes it. `collet import`
 * and the console (`source-probe.ts`) show the result. Invariant: the source is always closed, nothing is stored, and
 * only the host that the operator named may be local (rule 33).
 */

/** Maximum size of a description; those of large services exceed the limit for a call's result. */
const MAX_DESCRIPTION_BYTES = 64 * 1024 * 1024

/**
 * The `fetch` of an import. The host that the operator named may be local. Addresses in its answers may not, so a
 * description cannot make this machine send requests inside its network (rule 33).
 */
export function createImportFetch(address: string | undefined): GuardedFetch {
  const url = address === undefined ? null : URL.parse(address)
  return createGuardedFetch({
    allow: url === null ? [] : [`${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`],
    maxResponseBytes: MAX_DESCRIPTION_BYTES,
  })
}

export type Preview =
  | { readonly kind: 'seen'; readonly discovery: Discovery; readonly tookMs: number }
  | FailedPreview

interface FailedPreview {
  readonly kind: 'failed'
  readonly why: string
  /** Whether the source was not opened because its options are invalid. */
  readonly isUsageError: boolean
  readonly lacks: MissingPrerequisite | undefined
}

interface PreviewOptions {
  readonly services: Omit<SourceServices, 'log'>
  readonly signal: AbortSignal
  /** Receives every line that the program writes to stderr. */
  onLine(line: string): void
}

export async function previewSource(
  key: string,
  options: JsonObject,
  { services, signal, onLine }: PreviewOptions,
): Promise<Preview> {
  const parsed = SOURCE_OPTIONS.safeParse(previewOptions(options))
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
    return { kind: 'failed', why: problems.join('; '), isUsageError: true, lacks: undefined }
  }
  const { clock } = services
  const startedMs = clock.monotonicMs()
  const source = await openSource(key, parsed.data, { ...services, log: stderrLogger(onLine) })
  try {
    const discovery = await source.discover(signal)
    return { kind: 'seen', discovery, tookMs: clock.monotonicMs() - startedMs }
  } catch (error) {
    signal.throwIfAborted()
    return { kind: 'failed', why: failureText(error), isUsageError: false, lacks: lackOf(error) }
  } finally {
    await source.close()
  }
}

/** On the first start a launcher may have to download the program. */
export const FIRST_START_MS = 60_000

/** Allows a slow first start, and reads the annotations of MCP tools, so that the operator can choose to trust them. */
function previewOptions(options: JsonObject): JsonObject {
  const timeouts = { connectTimeoutMs: FIRST_START_MS, discoverTimeoutMs: FIRST_START_MS }
  return options.type === 'mcp' ? { ...timeouts, ...options, trust: 'annotations' } : options
}

const MAX_CAUSE_DEPTH = 8

function lackOf(error: unknown): MissingPrerequisite | undefined {
  let cause = error
  for (let depth = 0; depth < MAX_CAUSE_DEPTH && cause instanceof Error; depth += 1) {
    if (cause instanceof MissingPrerequisiteError) return cause.missing
    cause = cause.cause
  }
  return undefined
}

/** Includes the text for developers, because the reader is an operator. */
function failureText(error: unknown): string {
  if (!isToolError(error)) return error instanceof Error ? error.message : 'The server cannot be reached.'
  const { message, developerMessage, canRetry } = error
  if (developerMessage === undefined || developerMessage === message) return message
  return canRetry ? developerMessage : `${message} (${developerMessage})`
}

/** Sources log the stderr of their program at level debug, without secrets. Everything else they log is dropped. */
function stderrLogger(onLine: (line: string) => void): Logger {
  return {
    ...SILENT_LOGGER,
    debug(entry: object | string) {
      if (typeof entry !== 'object' || !('stderr' in entry) || typeof entry.stderr !== 'string') return
      for (const line of entry.stderr.split('\n')) if (line.trim() !== '') onLine(cleanText(line.trimEnd()))
    },
  }
}

const ADVICE: Readonly<Record<Exclude<MissingPrerequisite, 'program'>, string>> = {
  time: 'Allow more time with --timeout SECONDS.',
  credential: 'Write a token that may list tools into its headers.',
}

/** Why a source does not answer, with the next step on the command line if it is known. */
export function failureAdvice({ why, lacks }: FailedPreview, { command }: JsonObject): string {
  if (lacks === 'program')
    return `There is no program ${cleanText(String(command))}. Install it, or write its full path.`
  return lacks === undefined ? asSentence(why) : `${asSentence(why)} ${ADVICE[lacks]}`
}

/** Adds a full stop, which texts from programs and servers may lack. */
export function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** Warnings about a source for the operator who adds it with `collet import`. */
export function importWarnings(
  { tools, warnings, leftOut = [] }: Discovery,
  options: JsonObject,
): readonly string[] {
  const include = Array.isArray(options.include) ? options.include.map(String) : []
  const native = new Set([...tools.map(({ nativeName }) => nativeName), ...leftOut])
  const ineffective = ineffectiveOverrides(
    include.map((name) => ({ where: '--include', name, of: 'patterns', guards: false })),
    { native, tools: [], isRead: true },
  )
  const narrower =
    options.type === 'openapi' ? '--include, --tag, --method or --read-only' : '--include or --read-only'
  const { tools: count } = countOffered(tools)
  const tokens = tools
    .filter(({ entry }) => entry === undefined)
    .reduce((sum, tool) => sum + tokensOfTool({ ...tool, name: tool.nativeName }), 0)
  const many = `These are ${count} tools; the list costs a model ${tokensText(tokens)}, and most models choose badly among more than about ${LONG_LIST}. Narrow them with ${narrower}, or let models search them: "mcp": { "discovery": "search" } in the config (docs/search.md).`
  return [
    ...warnings,
    ...ineffective.map(({ text }) => text),
    ...suspicionTexts(tools),
    ...(count > LONG_LIST ? [many] : []),
  ]
}

/** Warns about texts in tools that a person should read before an agent does. */
export function suspicionTexts(tools: readonly OfferedTool[]): readonly string[] {
  return tools.flatMap((tool) =>
    suspicionsOf(tool).map(({ where, says }) => `Suspicious: ${tool.nativeName}, ${where}: ${says}`),
  )
}
