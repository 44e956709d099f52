import type { CommandContext } from '#cli/command'
import type { WorkerReady } from '#cli/io'
import { counted } from '#cli/output'
import type { Settings } from '#config/settings'
import { tokensText } from '#search/token-count'
import { isOwnMachine } from '#server/safety'
import { describeStore, shownStoreUrl } from '#store/stores'
import { exampleCurl } from './example-call.ts'

/**
 * What `collet serve` and `collet dev` print when the server listens: first the address to open, then what is served
 * and where. Invariant: a server with keys prints its sign-in link on a terminal only.
 */

interface BannerOptions {
  /** Makes the example call. Default: a call over OTC. */
  readonly example?: typeof exampleCurl | undefined
  /** Number of processes that share the port, if there are several. */
  readonly workers?: number | undefined
}

const MAX_TOOLSETS = 4
const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

export function announce(
  ready: WorkerReady,
  settings: Settings,
  context: Pick<CommandContext, 'output' | 'json' | 'command'>,
  { example = exampleCurl, workers }: BannerOptions = {},
): void {
  const { output, json } = context
  const { url, startTokenFile, consoleUrl, tools, versions, sources, warnings } = ready
  // A certificate names a host, and rarely 127.0.0.1.
  const callUrl = settings.server.tls === undefined ? url : publicUrl(ready, settings)
  const curl = example(callUrl, { ...settings, isKeyed: ready.isKeyed })
  if (json) {
    const store = shownStoreUrl(settings.store)
    const facts = { url, console: consoleUrl, store, tools, versions, sources, curl, workers }
    output.json({ ...facts, start_token_file: startTokenFile })
  } else {
    output.data(openLine(ready, settings, context))
    output.data(
      `${output.style('bold', 'Collet')} serves ${countText(ready)} on ${output.style('cyan', url)}`,
    )
    if (ready.unreachable) output.data(unreachableText(ready.unreachable))
    output.data('')
    for (const [label, text] of facts(ready, settings, context, { curl, workers }))
      output.data(`  ${label.padEnd(LABEL_WIDTH)}${text}`)
    output.data('')
  }
  for (const warning of warnings) output.warn(warning)
}

const LABEL_WIDTH = 13

/**
 * Logs are kept and read by others, so a server with keys prints a sign-in link on a terminal only. A server without
 * keys is for the person at this machine: its link works once and is always printed.
 */
function openLine(
  { consoleUrl, signInUrl, ...ready }: WorkerReady,
  settings: Settings,
  { output, command }: Pick<CommandContext, 'output' | 'command'>,
): string {
  const [address, note] =
    consoleUrl === undefined || signInUrl === undefined
      ? [consoleUrl ?? publicUrl(ready, settings), '']
      : output.isTerminal || (!ready.isKeyed && isOwnMachine(settings.server))
        ? [signInUrl, ' (signs you in once)']
        : [consoleUrl, ` (to sign in: ${command} sign-in)`]
  return `${output.style('bold', 'Open')} ${output.style('cyan', address)}${note}`
}

/** Counts as `collet tools` and the console do: a tool with two versions is one tool. */
function countText({ tools, versions, sources }: WorkerReady): string {
  const parts = [
    ...(versions === tools ? [] : [counted(versions, 'version')]),
    ...(sources === 0 ? [] : [counted(sources, 'source')]),
  ]
  return `${counted(tools, 'tool')}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`
}

function unreachableText(count: number): string {
  return count === 1
    ? '1 tool is hidden from all callers: it needs a scope that no key has.'
    : `${count} tools are hidden from all callers: they need scopes that no key has.`
}

function facts(
  ready: WorkerReady,
  settings: Settings,
  { output, command }: Pick<CommandContext, 'output' | 'command'>,
  { curl, workers }: { readonly curl: string | undefined; readonly workers: number | undefined },
): readonly (readonly [label: string, text: string])[] {
  const { consoleUrl, signInUrl, starting, tools, listTokens, startTokenFile } = ready
  const { server, mcp, toolsets, console: pages } = settings
  const shownToolsets = [...(toolsets?.keys() ?? [])].slice(0, MAX_TOOLSETS)
  const rows: readonly (readonly [label: string, text: string, isShown: boolean])[] = [
    [
      'Starting',
      `${starting.join(', ')} ${starting.length === 1 ? 'is still starting; its' : 'are still starting; their'} tools are not counted yet`,
      starting.length > 0,
    ],
    [
      'Next',
      `${command} import --from claude adds the MCP servers of a client; ${command} init makes a project with a tool`,
      tools === 0 && starting.length === 0,
    ],
    ['Listens on', `all addresses of this machine (${server.host})`, ALL_ADDRESSES.has(server.host)],
    ['Workers', `${workers} processes share the port`, workers !== undefined],
    ['MCP', `${publicUrl(ready, settings)}/mcp (for your client: ${command} connect CLIENT)`, mcp.enabled],
    ['List', listTokens === undefined ? '' : listCostText(listTokens), listTokens !== undefined],
    [
      'Toolsets',
      `${shownToolsets.map((name) => `/mcp/${name}`).join(', ')} (see: ${command} toolsets)`,
      mcp.enabled && shownToolsets.length > 0,
    ],
    ['Try it', curl ?? '', curl !== undefined],
    ['Data', describeStore(settings.store), true],
    [
      'Start token',
      `${startTokenFile} (lets an operator settle calls, decide approvals and manage keys)`,
      true,
    ],
    [
      'Console',
      'not built: run npm ci, then npm run build:console',
      consoleUrl === undefined && pages.enabled,
    ],
    [
      'Approvals',
      `${signInUrl} (signs you in once)`,
      consoleUrl === undefined && signInUrl !== undefined && output.isTerminal,
    ],
  ]
  return rows.flatMap(([label, text, isShown]) => (isShown ? [[label, text] as const] : []))
}

function publicUrl({ url }: Pick<WorkerReady, 'url'>, { server }: Settings): string {
  return server.publicUrl ?? url
}

/** What a long list costs a model, and how to switch to a search. */
export function listCostText({ list, search }: NonNullable<WorkerReady['listTokens']>): string {
  return `the whole list costs a model ${tokensText(list)}; with "mcp": { "discovery": "search" } it costs ${tokensText(search)} (docs/search.md)`
}
