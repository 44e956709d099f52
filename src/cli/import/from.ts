import { existsSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { type CommandContext, EXIT, type ExitCode, UsageError } from '#cli/command'
import { confirm, readHidden } from '#cli/input'
import { canonicalJson, cleanText, defined, type JsonObject } from '#kernel/base/json'
import { readSettingsFile } from '#server/import/client-files'
import { type PlaceholderValues, readServer } from '#server/import/client-servers'
import { clientFolders, mcpClient } from '#server/import/clients'
import { keyFrom, keyFromName } from '#server/import/detect'
import { createImportFetch, failureAdvice, importWarnings, previewSource } from '#server/import/preview'
import { countOffered, countsText, type OfferCounts } from '#sources/kit/offer-counts'
import type { Discovery } from '#sources/kit/source'
import type { ImportChoices } from './choices.ts'
import {
  ALL_CLIENTS,
  type Candidate,
  chooseServers,
  type OmittedServer,
  readLists,
  selectServers,
} from './listed.ts'
import { freeKey, type KnownSource, renewedText, type SourceRegistry } from './registry.ts'

/**
 * `collet import --from`: imports all MCP servers that the files of a client list. `commands/import.ts` calls it;
 * `listed.ts` reads the files and asks which servers to start. Invariant: a server is started only after the user
 * chose it, and a server that is imported already only gets new credentials.
 */

/** The work of an import, with or without `--from`. */
export interface ImportWork {
  readonly choices: ImportChoices
  readonly registry: SourceRegistry
  /** Values of `--env`: variables for the program, or values for placeholders. */
  readonly env: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

interface FromWork extends ImportWork {
  /** A client, all clients, or a file. */
  readonly from: string
  /** `--yes`: start and add everything that is listed. */
  readonly isSure: boolean
  /** `--from` was given, so the file is known to list servers. */
  readonly isNamed: boolean
  readonly withProject: boolean
  readonly only: readonly string[]
}

/**
 * Imports the MCP servers that a client lists: reads the files, asks which servers to start, fills in their
 * placeholders, starts them, and adds those that answer. A server that fails does not stop the others; the summary
 * shows its next step.
 */
export async function importFrom(work: FromWork, context: CommandContext): Promise<ExitCode> {
  const { choices, registry, isSure } = work
  const { servers, asked } = readLists(work.from, context)
  const { candidates, skipped, failed } = selectServers(servers, {
    ...work,
    isOwnAddress: await registry.ownAddress(),
  })
  const chosen = await chooseServers(candidates, { isSure, hasDefault: work.isNamed }, context)
  const { fresh, known, failed: unusable } = await sortServers(chosen, asked, work, context)
  const results = await startServers(fresh, work, context)
  const seen = results.filter((row): row is StartedServer => 'discovery' in row)
  const broken = [...failed, ...unusable, ...results.filter((row): row is OmittedServer => 'why' in row)]
  const taken = new Set((await registry.find([])).taken)
  const rows = seen.flatMap((row) => (row.renews === undefined ? [{ ...row, key: keyFor(row, taken) }] : []))
  const renewed = seen.flatMap(({ renews, ...row }) => (renews === undefined ? [] : [{ ...row, ...renews }]))
  for (const row of rows) showStarted(row, context)
  const trust = await choices.decideTrust(
    rows.flatMap(({ discovery }) => discovery.tools),
    context,
  )
  const question = [
    ...(rows.length === 0 ? [] : [`Add ${rows.map(({ key }) => key).join(', ')}?`]),
    ...renewed.map(({ key, changed }) => `Update ${changed.join(', ')} of ${key}?`),
  ].join(' ')
  if (question !== '' && !isSure && !(await confirm(context, question, { default: 'yes' })))
    throw new UsageError('Nothing was added. Use --yes to add them without being asked.')
  for (const { key, options, discovery } of rows)
    await registry.add({ key, options: choices.stored(options, discovery.tools, trust), replace: false })
  for (const { key, options } of renewed) await registry.renew(key, options)
  const added = rows.map(({ name, key, discovery }) => ({ name, key, ...countOffered(discovery.tools) }))
  const updated = renewed.map(({ name, key, changed }) => ({ name, key, changed }))
  const running = added.length === 0 || context.json ? undefined : await registry.runningServer()
  summarize({ added, updated, known, skipped, failed: broken }, { ...work, running }, context)
  if (!context.json)
    noteBypasses(chosen, new Set([...added, ...updated, ...known].map(({ name }) => name)), context)
  return broken.length === 0 ? EXIT.ok : EXIT.server
}

interface ServerToStart {
  readonly name: string
  readonly options: JsonObject
  /** The source that has this server already, with older credentials. */
  readonly renews?: KnownSource
}
interface ImportedServer {
  readonly name: string
  readonly key: string
}

/**
 * Fills in the placeholders of the chosen servers; separates new servers, known ones, and those that lack a value.
 */
async function sortServers(
  chosen: readonly Candidate[],
  asked: ReadonlyMap<string, string>,
  work: FromWork,
  context: CommandContext,
) {
  const { choices, registry } = work
  const values = await placeholderValues(chosen, asked, work, context)
  const readings = chosen.map(({ server }) => ({
    name: server.name,
    reading: readServer(server, context.workingFolder, values),
  }))
  const usable = distinct(
    readings.flatMap(({ name, reading }) =>
      reading.kind === 'usable' ? [{ name, options: choices.apply(reading.options) }] : [],
    ),
  )
  const { found } = await registry.find(usable.map(({ options }) => options))
  const exact = found.map((sources) => sources.find(({ changed }) => changed.length === 0)?.key)
  // An entry with other credentials is another account if another entry has the stored ones; otherwise it renews them.
  const older = found.map((sources) => sources.filter(({ key }) => !exact.includes(key)))
  return {
    fresh: usable.flatMap((server, index) => {
      const [renews, ...others] = exact[index] === undefined ? (older[index] ?? []) : []
      if (exact[index] !== undefined || others.length > 0) return []
      return [{ ...server, ...defined({ renews }) }]
    }),
    known: usable.flatMap(({ name }, index) => {
      const key = exact[index]
      return key === undefined ? [] : [{ name, key }]
    }),
    failed: [
      ...readings.flatMap(({ name, reading }) =>
        reading.kind === 'usable' ? [] : [{ name, why: reading.why }],
      ),
      ...usable.flatMap(({ name }, index) => {
        const keys = older[index]?.map(({ key }) => key) ?? []
        if (exact[index] !== undefined || keys.length < 2) return []
        const why = `it is ${keys.join(' or ')} with other credentials. Import it alone, and choose the source with --key: collet import --key ${keys[0]} -- PROGRAM.`
        return [{ name, why }]
      }),
    ],
  }
}

/** A server listed under two names is imported once. */
function distinct(servers: readonly ServerToStart[]): readonly ServerToStart[] {
  const byUpstream = Map.groupBy(servers, ({ options }) => canonicalJson(options))
  return [...byUpstream.values()].flatMap(([first]) => first ?? [])
}

/**
 * Values come from `--env`, then from the environment; values that a client would ask for are asked on a terminal.
 */
async function placeholderValues(
  chosen: readonly Candidate[],
  asked: ReadonlyMap<string, string>,
  { env }: FromWork,
  context: CommandContext,
): Promise<PlaceholderValues> {
  const variables = { ...context.environment.variables(), ...env }
  const inputs = new Map(Object.entries(env))
  for (const id of new Set(chosen.flatMap(({ plan }) => plan.inputs)))
    if (!inputs.has(id) && context.stdin.isTTY === true)
      inputs.set(id, await readHidden(context, cleanText(asked.get(id) ?? id)))
  return {
    home: clientFolders(context.workingFolder, variables).home,
    variable: (name) => variables[name],
    input: (id) => inputs.get(id),
    readFile: readSettingsFile,
  }
}

interface StartedServer extends ServerToStart {
  readonly discovery: Discovery
}

/** Number of servers that start in parallel; launchers mostly wait for the network. */
const MAX_PARALLEL = 4
const MAX_LINES = 20

/** Starts the servers in parallel, and reports each one that answers. */
async function startServers(
  fresh: readonly ServerToStart[],
  work: FromWork,
  context: CommandContext,
): Promise<readonly (StartedServer | OmittedServer)[]> {
  if (fresh.length === 0) return []
  const { output } = context
  const names = cleanText(fresh.map(({ name }) => name).join(', '))
  output.note(`Starting ${names} (up to ${work.choices.startSeconds} s each)`)
  const rows = new Map<ServerToStart, StartedServer | OmittedServer>()
  const waiting = [...fresh]
  const take = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      rows.set(next, await startServer(next, work, context))
  }
  const workers = Array.from({ length: MAX_PARALLEL }, take)
  await output.during(`Starting ${fresh.length} servers`, Promise.all(workers))
  return fresh.flatMap((server) => rows.get(server) ?? [])
}

async function startServer(
  server: ServerToStart,
  { choices, signal }: FromWork,
  { output, clock, workingFolder, environment }: CommandContext,
): Promise<StartedServer | OmittedServer> {
  const { name, options } = server
  const shown = cleanText(name)
  const send = createImportFetch(typeof options.url === 'string' ? options.url : undefined)
  let lines = 0
  const onLine = (line: string): void => {
    lines += 1
    if (lines <= MAX_LINES) output.note(`  ${shown} | ${line}`)
  }
  try {
    const { cwd } = options
    if (typeof cwd === 'string' && !existsSync(cwd))
      return { name, why: `its folder ${cwd} does not exist. Create it, or change "cwd" in the file.` }
    const services = { fetch: send, clock, folder: workingFolder, environment: environment.variables() }
    const key = keyFromName(name) ?? 'Imported'
    const preview = await previewSource(key, options, { services, signal, onLine })
    if (preview.kind === 'failed') {
      output.error(`${shown} does not answer`)
      const old = isOldTransport(options) ? ` ${OLD_TRANSPORT}` : ''
      return { name, why: `${failureAdvice(preview, options)}${old}` }
    }
    const { discovery, tookMs } = preview
    const tools = choices.narrow(discovery.tools, options)
    const counts = countOffered(tools)
    if (counts.tools === 0 && countOffered(discovery.tools).tools > 0)
      return { name, why: 'none of its tools is marked read-only. Import it without --read-only.' }
    output.done(`${shown}: ${countsText(counts)} in ${(tookMs / 1000).toFixed(1)} s`)
    return { ...server, discovery: { ...discovery, tools } }
  } finally {
    await send.close()
  }
}

const OLD_TRANSPORT =
  'It looks like the HTTP+SSE transport of 2024, which Collet does not support: look for its newer address, often ending in /mcp.'

function isOldTransport({ url }: JsonObject): boolean {
  return typeof url === 'string' && /\/sse\/?$/.test(URL.parse(url)?.pathname ?? '')
}

/** The key of a source: the name that the user chose, with a number if it is taken. */
function keyFor({ name, discovery }: StartedServer, taken: Set<string>): string {
  const key = freeKey(keyFromName(name) ?? keyFrom(discovery.name ?? '') ?? 'Imported', taken)
  taken.add(key)
  return key
}

function showStarted(
  { name, key, discovery, options }: StartedServer & ImportedServer,
  { output }: CommandContext,
): void {
  const itself = discovery.name === undefined ? '' : `, which calls itself "${cleanText(discovery.name)}"`
  output.note(`"${cleanText(name)}"${itself}, becomes ${key}`)
  for (const warning of importWarnings(discovery, options)) output.warn(`${key}: ${cleanText(warning)}`)
}

/** Reminds the user that the client still reaches these servers directly. */
function noteBypasses(
  chosen: readonly Candidate[],
  imported: ReadonlySet<string>,
  { output }: CommandContext,
): void {
  const servers = chosen.map(({ server }) => server).filter(({ name }) => imported.has(name))
  for (const [client, same] of Map.groupBy(servers, (server) => server.client)) {
    if (client === undefined) continue
    const names = same.map(({ name }) => cleanText(name)).join(', ')
    const files = [...new Set(same.map(({ file }) => file))].join(', ')
    output.note(
      `${mcpClient(client)?.title ?? client} still reaches ${names} without Collet: ${files}. "collet connect ${client} --write" connects it to Collet and offers to remove ${same.length === 1 ? 'that entry' : 'those entries'}.`,
    )
  }
}

interface Summary {
  readonly added: readonly (ImportedServer & OfferCounts)[]
  readonly updated: readonly (ImportedServer & KnownSource)[]
  readonly known: readonly ImportedServer[]
  readonly skipped: readonly OmittedServer[]
  readonly failed: readonly OmittedServer[]
}

function summarize(
  summary: Summary,
  { from, running }: Pick<FromWork, 'from'> & { readonly running: string | undefined },
  { output, json, workingFolder }: CommandContext,
): void {
  const { added, updated, known, skipped, failed } = summary
  if (json) {
    output.json(summary)
    return
  }
  output.note('')
  for (const { key, ...counts } of added) output.done(`${key} is added, ${countsText(counts)}.`)
  for (const source of updated) output.done(renewedText(source))
  for (const { name, key } of known) output.note(`${cleanText(name)} is already imported, as ${key}.`)
  for (const { name, why } of skipped) output.note(`${cleanText(name)} is left out: ${why}.`)
  for (const { name, why } of failed) output.error(`${cleanText(name)} was not added: ${cleanText(why)}`)
  const isClient = from === ALL_CLIENTS || mcpClient(from) !== undefined
  const again = isClient ? from : relative(workingFolder, resolve(workingFolder, from))
  if (failed.length > 0)
    output.note(`Fix that and run "collet import --from ${again}" again: it adds only what is new.`)
  if (added.length === 0) return
  const connect = `"collet connect ${mcpClient(from) === undefined ? 'CLIENT' : from} --write"`
  const them = added.length === 1 ? 'it' : 'them'
  output.note(
    running === undefined
      ? `Next: "collet serve", then ${connect} for your MCP client.`
      : `The server on ${running} serves ${them} now. Next: ${connect}`,
  )
}
