import { isToolError } from '#core/errors'
import type { FoundSource, ImportType, Look } from './found-source.ts'
import type { Probe } from './probe.ts'
import { probeMcp } from './probe-mcp.ts'
import { probeDocument, probeOpenTool, probeOpenwop, probeOtc, probeUsualPlaces } from './probe-servers.ts'

export interface Detection {
  readonly found: FoundSource | undefined
  /** What was seen on the way, for somebody who expected something else. */
  readonly seen: readonly string[]
}

export interface DetectUrlOptions extends Omit<Probe, 'signal'> {
  readonly signal: AbortSignal
  /** Looks for this alone. */
  readonly only?: ImportType
  /** Told before each look. */
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
    if (result === UNREACHABLE) return { found: undefined, seen: [`${new URL(url).host} cannot be reached.`] }
    if (typeof result === 'string') seen.push(`${text}: ${result}`)
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

function stepsFor(url: string): readonly Step[] {
  const bare = url.replace(/\/+$/, '')
  const { pathname } = new URL(url)
  const document: Step = { finds: ['openapi', 'opentool'], text: `Reading ${url}`, url, look: probeDocument }
  const mcp: Step = { finds: ['mcp'], text: `Asking ${url} for MCP`, url, look: probeMcp }
  const otc: Step = { finds: ['otc'], text: `Asking ${url} for OTC`, url, look: probeOtc }
  const opentool: Step = {
    ...{ finds: ['opentool'], text: `Asking ${url} for OpenTool` },
    ...{ url, look: probeOpenTool },
  }
  const rest: readonly Step[] = [
    { finds: ['mcp'], text: `Asking ${bare}/mcp for MCP`, url: `${bare}/mcp`, look: probeMcp },
    { ...document, text: `Looking for an OpenAPI document at ${bare}`, url: bare, look: probeUsualPlaces },
    { finds: [], text: `Asking ${url} for openwop`, url, look: probeOpenwop },
  ]
  if (/\/(?:mcp|sse)\/?$/.test(pathname)) return [mcp, document, otc, opentool, ...rest]
  if (/\/opentool(?:\/|$)/.test(pathname)) return [opentool, document, mcp, otc, ...rest]
  return [document, otc, opentool, mcp, ...rest]
}
