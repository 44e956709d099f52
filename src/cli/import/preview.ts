import type { CommandContext } from '#cli/command'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { idleOverrides } from '#sources/kit/overrides'
import type { Discovery, OfferedTool, UpstreamLack } from '#sources/kit/source'
import { suspicionsOf } from '#sources/kit/suspicions'

/**
 * Looks at a source before it is added: opens it as a server would, reads its tools and closes it. `collet import`
 * shows the result. Invariant: the source is always closed, and nothing is stored.
 */

interface Failure {
  readonly kind: 'failed'
  readonly why: string
  /** Its options are invalid. */
  readonly isUsage: boolean
  readonly lacks: UpstreamLack | undefined
}

/** The result of looking at a source. */
type Preview = { readonly kind: 'seen'; readonly discovery: Discovery; readonly tookMs: number } | Failure

interface PreviewOptions {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  /** Receives every line that the program writes to stderr. */
  onLine(line: string): void
}

export async function previewSource(
  key: string,
  options: JsonObject,
  { send, signal, onLine }: PreviewOptions,
  { clock, workingFolder, environment }: CommandContext,
): Promise<Preview> {
  const { previewSource: look, stderrLogger } = await import('#server/import/probe')
  const services = {
    fetch: send,
    clock,
    log: stderrLogger(onLine),
    folder: workingFolder,
    environment: environment.variables(),
  }
  const startedMs = clock.monotonicMs()
  const preview = await look(key, options, { services, signal })
  if (preview.kind === 'seen')
    return { kind: 'seen', discovery: preview.discovery, tookMs: clock.monotonicMs() - startedMs }
  if (preview.kind === 'refused')
    return { kind: 'failed', why: preview.problems.join('; '), isUsage: true, lacks: undefined }
  return { ...preview, isUsage: false }
}

const ADVICE: Readonly<Record<UpstreamLack, string>> = {
  time: 'Give it longer with --timeout SECONDS.',
  program: 'Install that program, or write its whole path.',
  credential: 'Write a token that may list tools into its headers.',
}

/** The next step for a program that is not installed. */
export function missingProgram(command: string): string {
  return `There is no program ${cleanText(command)}. Install it, or write its whole path.`
}

/** Why a server does not answer, with the next step if it is known. */
export function withAdvice({ why, lacks }: Pick<Failure, 'why' | 'lacks'>): string {
  const sentence = /[.!?]$/.test(why) ? why : `${why}.`
  return lacks === undefined ? sentence : `${sentence} ${ADVICE[lacks]}`
}

/** Most models choose badly among more tools than this. */
const MANY_TOOLS = 50

/** Warnings about a source for the operator who adds it. */
export function warningsOf(
  { tools, warnings, leftOut = [] }: Discovery,
  options: JsonObject,
): readonly string[] {
  const include = Array.isArray(options.include) ? options.include.map(String) : []
  const native = new Set([...tools.map(({ nativeName }) => nativeName), ...leftOut])
  const idle = idleOverrides(
    include.map((name) => ({ where: '--include', name, of: 'patterns', guards: false })),
    { native, tools: [], isRead: true },
  )
  const narrower =
    options.type === 'openapi' ? '--include, --tag, --method or --read-only' : '--include or --read-only'
  return [
    ...warnings,
    ...idle.map(({ text }) => text),
    ...tools.flatMap(suspicious),
    ...(tools.length > MANY_TOOLS
      ? [
          `These are ${tools.length} tools, and most models choose badly among more than about ${MANY_TOOLS}. Narrow them with ${narrower}.`,
        ]
      : []),
  ]
}

/** Texts that a person should read before an agent does. */
function suspicious(tool: OfferedTool): readonly string[] {
  return suspicionsOf(tool).map(({ where, says }) => `Suspicious: ${tool.nativeName}, ${where}: ${says}`)
}
