import { existsSync, readFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { type CommandContext, EXIT, type ExitCode, UsageError } from '#cli/command'
import { confirm, readHidden } from '#cli/input'
import { counted } from '#cli/output'
import { canonicalJson, cleanText, type JsonObject } from '#core/json'
import { didYouMean } from '#core/nearest-name'
import type { Discovery } from '#core/ports/source'
import {
  type PlaceholderValues,
  readServer,
  readServerList,
  type WrittenServer,
} from '#server/import/client-servers'
import { clientFiles, clientPlace, MCP_CLIENTS, mcpClient } from '#server/import/clients'
import { keyFrom } from '#server/import/detect'
import { isLoopback } from '#server/safety'
import type { ImportChoices } from './choices.ts'
import { previewSource, warningsOf, withAdvice } from './preview.ts'
import { freeKey, type KnownSource, renewedText, type SourceShelf } from './shelf.ts'

/** The clients that `--from` knows. */
export const FROM_NAMES = Object.keys(MCP_CLIENTS).join(', ')

interface FromWork {
  /** A client, or a file. */
  readonly from: string
  readonly choices: ImportChoices
  readonly shelf: SourceShelf
  /** Values for placeholders. */
  readonly given: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Nobody is asked before sources are added. */
  readonly isSure: boolean
  /** The user said `--from`, and so that this is a list of programs to start. */
  readonly isNamed: boolean
}

/** Imports every MCP server that a client lists. One that fails does not stop the others; the end says what to do. */
export async function importFrom(work: FromWork, context: CommandContext): Promise<ExitCode> {
  const { choices, shelf } = work
  const listed = readLists(work.from, context)
  const { fresh, known, skipped, failed } = await sortServers(listed, work, context)
  if (!work.isSure && !work.isNamed) await askToStart(fresh, work.from, context)
  const looked = await lookAtAll(fresh, work, context)
  const seen = looked.filter((row): row is Seen => 'discovery' in row)
  const broken = [...failed, ...looked.filter((row): row is Failed => 'why' in row)]
  const taken = new Set((await shelf.find([])).taken)
  const rows = seen.flatMap((row) => (row.renews === undefined ? [{ ...row, key: keyFor(row, taken) }] : []))
  const renewed = seen.flatMap(({ renews, ...row }) => (renews === undefined ? [] : [{ ...row, ...renews }]))
  for (const row of rows) showSeen(row, context)
  const trust = await choices.decideTrust(
    rows.flatMap(({ discovery }) => discovery.tools),
    context,
  )
  const asked = [
    ...(rows.length === 0 ? [] : [`Add ${rows.map(({ key }) => key).join(', ')}?`]),
    ...renewed.map(({ key, changed }) => `Update ${changed.join(', ')} of ${key}?`),
  ].join(' ')
  if (asked !== '' && !work.isSure && !(await confirm(context, asked)))
    throw new UsageError('Nothing was added. Use --yes to add them without being asked.')
  for (const { key, options, discovery } of rows)
    await shelf.add({ key, options: choices.stored(options, discovery.tools, trust), replace: false })
  for (const { key, options } of renewed) await shelf.renew(key, options)
  const added = rows.map(({ name, key, discovery }) => ({ name, key, tools: discovery.tools.length }))
  const updated = renewed.map(({ name, key, changed }) => ({ name, key, changed }))
  summarize({ added, updated, known, skipped, failed: broken }, work, context)
  return broken.length === 0 ? EXIT.ok : EXIT.server
}

/** A file that merely looks like a list may come from anybody: nothing in it is started before its user has seen what. */
async function askToStart(fresh: readonly Fresh[], file: string, context: CommandContext): Promise<void> {
  const programs = fresh.flatMap(({ name, options: { command, args } }) =>
    typeof command === 'string'
      ? [`${name}: ${[command, ...(Array.isArray(args) ? args : [])].join(' ')}`]
      : [],
  )
  if (programs.length === 0) return
  context.output.note(`${file} lists programs to start:`)
  for (const line of programs) context.output.note(`  ${cleanText(line)}`)
  if (await confirm(context, 'Start them to read their tools?')) return
  throw new UsageError('Nothing was started. If they are yours, say --from FILE, or --yes.')
}

/** Whether a file lists MCP servers. */
export function isServerList(file: string, folder: string): boolean {
  return readServerList(readFileSync(file, 'utf8'), file, folder) !== undefined
}

interface Lists {
  readonly servers: readonly WrittenServer[]
  /** What the client would ask its user for, by id. */
  readonly asked: ReadonlyMap<string, string>
}

/** All files of a client that are there, or the one file. A name in several means the first. */
function readLists(from: string, { workingFolder, environment, output }: CommandContext): Lists {
  const client = mcpClient(from)
  const place = clientPlace(workingFolder, environment.variables())
  const files = client === undefined ? [resolve(workingFolder, from)] : clientFiles(client, place)
  const servers = new Map<string, WrittenServer>()
  const asked = new Map<string, string>()
  const problems: string[] = []
  for (const file of files) {
    const text = readIfThere(file)
    const list = text === undefined ? undefined : readServerList(text, file, workingFolder)
    if (list === undefined) {
      problems.push(`${file} ${text === undefined ? 'is not there' : 'lists no "mcpServers" or "servers"'}`)
      continue
    }
    output.note(`Reading ${file}`)
    for (const server of list.servers) if (!servers.has(server.name)) servers.set(server.name, server)
    for (const { id, description } of list.asked) asked.set(id, description)
  }
  if (problems.length === files.length) {
    const meant = client === undefined ? didYouMean(from, Object.keys(MCP_CLIENTS)) : ''
    throw new UsageError(
      `There is nothing to import: ${problems.join('; ')}.${meant} --from takes ${FROM_NAMES}, or a file.`,
    )
  }
  return { servers: [...servers.values()], asked }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

interface Fresh {
  readonly name: string
  readonly options: JsonObject
  /** It is there already, with older credentials. */
  readonly renews?: KnownSource
}
interface Known {
  readonly name: string
  readonly key: string
}
interface Failed {
  readonly name: string
  readonly why: string
}

interface Sorted {
  readonly fresh: readonly Fresh[]
  readonly known: readonly Known[]
  readonly skipped: readonly Failed[]
  readonly failed: readonly Failed[]
}

/** Which entries are new, which are there already, and which cannot or need not be imported. */
async function sortServers(
  { servers, asked }: Lists,
  work: FromWork,
  context: CommandContext,
): Promise<Sorted> {
  const { choices, shelf } = work
  const values = await placeholderValues(servers, asked, work, context)
  const readings = servers.map((server) => ({
    name: server.name,
    reading: readServer(server, context.workingFolder, values),
  }))
  const usable = distinct(
    readings.flatMap(({ name, reading }) =>
      reading.kind === 'usable' ? [{ name, options: choices.apply(reading.options) }] : [],
    ),
  )
  const { found } = await shelf.find(usable.map(({ options }) => options))
  const exact = found.map((sources) => sources.find(({ changed }) => changed.length === 0)?.key)
  // An entry with other credentials is another account where its fellow has the old ones; else they were renewed.
  const older = found.map((sources) => sources.filter(({ key }) => !exact.includes(key)))
  const rest = (kind: 'skipped' | 'unusable'): readonly Failed[] =>
    readings.flatMap(({ name, reading }) => (reading.kind === kind ? [{ name, why: reading.why }] : []))
  return {
    fresh: usable.flatMap((server, index) => {
      const [renews, ...others] = exact[index] === undefined ? (older[index] ?? []) : []
      if (exact[index] !== undefined || others.length > 0) return []
      return [renews === undefined ? server : { ...server, renews }]
    }),
    known: usable.flatMap(({ name }, index) => {
      const key = exact[index]
      return key === undefined ? [] : [{ name, key }]
    }),
    skipped: rest('skipped'),
    failed: [
      ...rest('unusable'),
      ...usable.flatMap(({ name }, index) => {
        const keys = older[index]?.map(({ key }) => key) ?? []
        return exact[index] === undefined && keys.length > 1 ? [{ name, why: oneOf(keys) }] : []
      }),
    ],
  }
}

function oneOf(keys: readonly string[]): string {
  return `it is ${keys.join(' or ')} with other credentials. Import it alone, and say which with --key: collet import --key ${keys[0]} -- PROGRAM.`
}

/** A server that is listed twice under two names is one. */
function distinct(servers: readonly Fresh[]): readonly Fresh[] {
  const byUpstream = Map.groupBy(servers, ({ options }) => canonicalJson(options))
  return [...byUpstream.values()].flatMap(([first]) => first ?? [])
}

/** `--env` first, then the environment; what a client would ask for is asked for here too, on a terminal. */
async function placeholderValues(
  servers: readonly WrittenServer[],
  asked: ReadonlyMap<string, string>,
  { given, shelf }: FromWork,
  context: CommandContext,
): Promise<PlaceholderValues> {
  const variables = { ...context.environment.variables(), ...given }
  const inputs = new Map(Object.entries(given))
  const named = JSON.stringify(servers.map(({ entry }) => entry)).matchAll(/\$\{input:([^}:]+)\}/g)
  for (const id of new Set([...named].map(([, name = '']) => name)))
    if (!inputs.has(id) && context.stdin.isTTY === true)
      inputs.set(id, await readHidden(context, cleanText(asked.get(id) ?? id)))
  const port = await shelf.ownPort()
  return {
    home: clientPlace(context.workingFolder, variables).home,
    variable: (name) => variables[name],
    input: (id) => inputs.get(id),
    readFile: readIfThere,
    isOwnAddress: (text) => {
      const url = URL.parse(text)
      return (
        url !== null &&
        isLoopback(url.hostname) &&
        Number(url.port) === port &&
        url.pathname.startsWith('/mcp')
      )
    },
  }
}

interface Seen extends Fresh {
  readonly discovery: Discovery
}

/** Launchers wait for the network more than for this machine. */
const AT_ONCE = 4
const MOST_LINES = 20

/** Starts them side by side, and tells of each as it answers. */
async function lookAtAll(
  fresh: readonly Fresh[],
  work: FromWork,
  context: CommandContext,
): Promise<readonly (Seen | Failed)[]> {
  if (fresh.length === 0) return []
  const { output } = context
  const names = cleanText(fresh.map(({ name }) => name).join(', '))
  output.note(`Starting ${names} (up to ${work.choices.patienceSeconds} s each)`)
  const rows = new Map<string, Seen | Failed>()
  const waiting = [...fresh]
  const take = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      rows.set(next.name, await lookAt(next, work, context))
  }
  const workers = Array.from({ length: AT_ONCE }, take)
  await output.during(`Starting ${fresh.length} servers`, Promise.all(workers))
  return fresh.flatMap(({ name }) => rows.get(name) ?? [])
}

async function lookAt(
  server: Fresh,
  { choices, signal }: FromWork,
  context: CommandContext,
): Promise<Seen | Failed> {
  const { output } = context
  const { name, options } = server
  const shown = cleanText(name)
  const { createImportFetch } = await import('#server/import/probe')
  const send = createImportFetch(typeof options.url === 'string' ? options.url : undefined)
  let lines = 0
  const onLine = (line: string): void => {
    lines += 1
    if (lines <= MOST_LINES) output.note(`  ${shown} | ${line}`)
  }
  try {
    const { cwd } = options
    if (typeof cwd === 'string' && !existsSync(cwd))
      return { name, why: `its folder ${cwd} is not there. Make it, or change "cwd" in the file.` }
    const look = { send, signal, onLine }
    const preview = await previewSource(
      keyFrom(name) ?? 'Imported',
      choices.forPreview(options),
      look,
      context,
    )
    if (preview.kind === 'failed') {
      output.error(`${shown} does not answer`)
      const old = isOldTransport(options) ? ` ${OLD_TRANSPORT}` : ''
      return { name, why: `${withAdvice(preview)}${old}` }
    }
    const { discovery, tookMs } = preview
    const tools = choices.narrow(discovery.tools, options)
    if (tools.length === 0 && discovery.tools.length > 0)
      return { name, why: 'none of its tools says that it only reads. Import it without --read-only.' }
    output.done(`${shown}: ${counted(tools.length, 'tool')} in ${(tookMs / 1000).toFixed(1)} s`)
    return { ...server, discovery: { ...discovery, tools } }
  } finally {
    await send.close()
  }
}

const OLD_TRANSPORT =
  'It looks like the HTTP+SSE transport of 2024, which is not spoken here: look for its newer address, often ending in /mcp.'

function isOldTransport({ url }: JsonObject): boolean {
  return typeof url === 'string' && /\/sse\/?$/.test(URL.parse(url)?.pathname ?? '')
}

/** What the server calls itself; where that is taken, what its owner calls it; then with a number. */
function keyFor({ name, discovery }: Seen, taken: Set<string>): string {
  const own = keyFrom(discovery.name ?? '')
  const given = keyFrom(name) ?? 'Imported'
  const key = own !== undefined && !taken.has(own) ? own : freeKey(given, taken)
  taken.add(key)
  return key
}

function showSeen({ name, key, discovery, options }: Seen & Known, { output }: CommandContext): void {
  const itself = discovery.name === undefined ? '' : `, which calls itself "${cleanText(discovery.name)}"`
  output.note(`"${cleanText(name)}"${itself}, becomes ${key}`)
  for (const warning of warningsOf(discovery, options)) output.warn(`${key}: ${cleanText(warning)}`)
}

interface Summary {
  readonly added: readonly (Known & { readonly tools: number })[]
  readonly updated: readonly (Known & KnownSource)[]
  readonly known: readonly Known[]
  readonly skipped: readonly Failed[]
  readonly failed: readonly Failed[]
}

function summarize(
  summary: Summary,
  { from }: FromWork,
  { output, json, workingFolder }: CommandContext,
): void {
  const { added, updated, known, skipped, failed } = summary
  if (json) {
    output.json(summary)
    return
  }
  output.note('')
  for (const { key, tools } of added) output.done(`${key} is added, ${counted(tools, 'tool')}.`)
  for (const source of updated) output.done(renewedText(source))
  for (const { name, key } of known) output.note(`${cleanText(name)} is there already, as ${key}.`)
  for (const { name, why } of skipped) output.note(`${cleanText(name)} is left out: ${why}.`)
  for (const { name, why } of failed) output.error(`${cleanText(name)} was not added: ${cleanText(why)}`)
  const again = mcpClient(from) === undefined ? relative(workingFolder, resolve(workingFolder, from)) : from
  if (failed.length > 0)
    output.note(`Put that right and run "collet import --from ${again}" again: it adds only what is new.`)
  if (added.length > 0) output.note('Next: "collet serve", then "collet connect CLIENT" for your MCP client.')
}
