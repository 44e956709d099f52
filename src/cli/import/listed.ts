import { resolve } from 'node:path'
import { type CommandContext, UsageError } from '#cli/command'
import { askLine } from '#cli/input'
import { canonicalJson, cleanText } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { type ClientDecision, readDecisions } from '#server/import/client-decisions'
import { readServerList, readSettingsFile, type WrittenServer } from '#server/import/client-files'
import { describeServer, type ServerPlan } from '#server/import/client-servers'
import { CLIENT_NAMES, clientFiles, clientFolders, MCP_CLIENTS, mcpClient } from '#server/import/clients'

/**
 * Reads the files that `collet import --from` names, and asks which of their servers to start. Invariant: until
 * `chooseServers` returns, no program was started, no request was sent and no placeholder was filled in.
 */

/** The value of `--from` if it is given without one. */
export const ALL_CLIENTS = 'all'
export const FROM_NAMES = [...CLIENT_NAMES, ALL_CLIENTS].join(', ')

interface ListedServer extends WrittenServer {
  /** `named` for the file that the user named. */
  readonly scope: 'user' | 'project' | 'named'
  /** The client that owns the file; absent for a file that the user named. */
  readonly client?: string
  readonly decided: ClientDecision | undefined
}

export function isServerList(file: string, folder: string): boolean {
  const text = readSettingsFile(file)
  return text !== undefined && readServerList(text, file, folder) !== undefined
}

/** The servers in the files of one client, of all clients, or in one file. */
export function readLists(from: string, { workingFolder, environment, output }: CommandContext) {
  const folders = clientFolders(workingFolder, environment.variables())
  const names = from === ALL_CLIENTS ? CLIENT_NAMES : mcpClient(from) === undefined ? [] : [from]
  const files = names.flatMap((client) =>
    clientFiles(mcpClient(client) ?? MCP_CLIENTS.claude, folders).map((file) => ({ ...file, client })),
  )
  const named = { path: resolve(workingFolder, from), scope: 'named' as const }
  const servers: ListedServer[] = []
  /** Descriptions of the values that a client would ask its user for, by id. */
  const asked = new Map<string, string>()
  const problems: string[] = []
  const read = new Set<string>()
  for (const { path, ...origin } of names.length === 0 ? [named] : files) {
    const text = read.has(path) ? undefined : readSettingsFile(path)
    const list = text === undefined ? undefined : readServerList(text, path, workingFolder)
    if (list === undefined) {
      if (!read.has(path))
        problems.push(`${path} ${text === undefined ? 'does not exist' : 'lists no MCP servers'}`)
      continue
    }
    read.add(path)
    const decide = readDecisions(path, 'client' in origin ? origin.client : undefined, folders)
    const title = 'client' in origin ? `${mcpClient(origin.client)?.title}: ` : ''
    const listed = list.servers.map(({ name }) => cleanText(name)).join(', ')
    output.note(`${title}${path} lists ${listed || 'no servers'}.`)
    for (const server of list.servers) servers.push({ ...server, ...origin, decided: decide(server.name) })
    for (const { id, description } of list.asked) asked.set(id, description)
  }
  if (read.size > 0) return { servers, asked }
  const hint = names.length === 0 ? didYouMean(from, CLIENT_NAMES) : ''
  const where = from === ALL_CLIENTS ? 'no client has a list of MCP servers here' : problems.join('; ')
  throw new UsageError(`There is nothing to import: ${where}.${hint} --from takes ${FROM_NAMES}, or a file.`)
}

/** A server that can be imported, with the program or address behind it. */
export interface Candidate {
  readonly server: ListedServer
  readonly plan: ServerPlan
}

export interface OmittedServer {
  readonly name: string
  readonly why: string
}

interface Selection {
  /** `--project`: include files of the project. */
  readonly withProject: boolean
  /** `--server`: only the servers with these names; empty for all. */
  readonly only: readonly string[]
  isOwnAddress(url: string): boolean
}

/** Separates servers that can be imported from those that are left out, with the reason. */
export function selectServers(
  servers: readonly ListedServer[],
  { withProject, only, isOwnAddress }: Selection,
) {
  const names = new Set(servers.map(({ name }) => name))
  const unknown = only.find((name) => !names.has(name))
  if (unknown !== undefined)
    throw new UsageError(
      `There is no server "${unknown}" in these files.${didYouMean(unknown, [...names])} They list: ${[...names].join(', ')}.`,
    )
  const candidates: Candidate[] = []
  const skipped: OmittedServer[] = []
  const failed: OmittedServer[] = []
  for (const server of servers.filter(({ name }) => only.length === 0 || only.includes(name))) {
    const { name, scope, decided } = server
    const plan = describeServer(server, isOwnAddress)
    if ('kind' in plan) (plan.kind === 'skipped' ? skipped : failed).push({ name, why: plan.why })
    else if (decided?.decision === 'rejected')
      skipped.push({ name, why: `it was rejected in ${titleOf(decided.client)}` })
    else if (scope === 'project' && !withProject)
      skipped.push({ name, why: `${server.file} belongs to this project; --project includes it` })
    else candidates.push({ server, plan })
  }
  return { candidates, skipped, failed }
}

interface ChoiceOptions {
  /** `--yes`: all listed servers are started. */
  readonly isSure: boolean
  /** Whether an empty answer selects the listed servers; not for a file that only looks like a list. */
  readonly hasDefault: boolean
}

/** Shows what would be started, and asks which servers to start. */
export async function chooseServers(
  candidates: readonly Candidate[],
  { isSure, hasDefault }: ChoiceOptions,
  context: CommandContext,
): Promise<readonly Candidate[]> {
  if (candidates.length === 0) return []
  showCandidates(candidates, context)
  if (isSure) return candidates
  const defaults = hasDefault
    ? candidates.filter(({ server }) => server.decided?.decision !== 'undecided')
    : []
  const answer = await askLine(context, question(candidates, defaults))
  if (answer === undefined)
    throw new UsageError(
      'Nothing was started. Run the command on a terminal to choose, or add --yes to start everything that is listed above.',
    )
  const chosen = answer === '' ? defaults : chosenBy(answer, candidates)
  if (chosen.length === 0) throw new UsageError('Nothing was started.')
  return chosen
}

function question(candidates: readonly Candidate[], defaults: readonly Candidate[]): string {
  if (candidates.length === 1) return defaults.length === 1 ? 'Start it? [Y/n]' : 'Start it? [y/N]'
  const numbers = defaults.map((each) => candidates.indexOf(each) + 1).join(', ')
  const enter = defaults.length === candidates.length ? 'Enter for all' : `Enter for ${numbers}`
  return `Start which? ${defaults.length === 0 ? '"all"' : enter}, numbers or names to choose, n for none:`
}

function chosenBy(answer: string, candidates: readonly Candidate[]): readonly Candidate[] {
  if (/^(?:all|y|yes)$/i.test(answer)) return candidates
  if (/^(?:n|no|none)$/i.test(answer)) return []
  const words = answer.split(/[\s,]+/).filter((word) => word !== '')
  const chosen = new Set(words.map((word) => candidateBy(word, candidates)))
  return candidates.filter((each) => chosen.has(each))
}

/** A number is always a position in the list: otherwise a file could name its server "2" to pass for the second one. */
function candidateBy(word: string, candidates: readonly Candidate[]): Candidate {
  const isNumber = /^[0-9]+$/.test(word)
  const same = isNumber ? [] : candidates.filter(({ server }) => server.name === word)
  const found = isNumber ? candidates[Number(word) - 1] : same[0]
  if (found === undefined)
    throw new UsageError(
      `Nothing was started: "${cleanText(word)}" is neither a number nor a name in the list.`,
    )
  if (same.length > 1)
    throw new UsageError(
      `Nothing was started: "${cleanText(word)}" names ${same.length} servers; choose by number.`,
    )
  return found
}

function showCandidates(candidates: readonly Candidate[], { output }: CommandContext): void {
  output.note('Importing starts these programs and reads the tools at these addresses:')
  for (const [index, { server, plan }] of candidates.entries()) {
    output.note(`  ${index + 1}. ${cleanText(server.name)}: ${cleanText(plan.target)}`)
    for (const line of detailsOf(server, plan)) output.note(`       ${cleanText(line)}`)
  }
  const byName = Map.groupBy(candidates, ({ server }) => server.name)
  for (const [name, same] of byName) {
    const entries = new Set(same.map(({ server }) => canonicalJson(server.entry)))
    const files = same.map(({ server }) => server.file).join(' and ')
    if (entries.size > 1)
      output.warn(
        cleanText(`"${name}" names ${entries.size} different servers, in ${files}. Choose by number.`),
      )
  }
}

function detailsOf(
  { scope, file, decided }: ListedServer,
  { variables, inputs, sets, envFile, cwd, isProgram }: ServerPlan,
): readonly string[] {
  const isProject = scope === 'project'
  const approval =
    decided === undefined
      ? ''
      : `, ${decided.decision === 'approved' ? '' : 'not '}approved in ${titleOf(decided.client)}`
  // Any value in the user's own file may be a secret; everyone with the repository can read the project's file anyway.
  const written = sets.map(({ name, value }) =>
    isProject && value !== undefined ? `${name}=${value}` : name,
  )
  return [
    isProject ? `in ${file}, a file of this project${approval}` : `in ${file}`,
    ...(variables.length === 0 ? [] : [`gets from your shell: ${variables.join(', ')}`]),
    ...(inputs.length === 0 ? [] : [`asks you for: ${inputs.join(', ')}`]),
    ...(sets.length === 0
      ? []
      : [`${isProgram ? 'sets variables' : 'sends headers'}: ${written.join(', ')}`]),
    ...(envFile === undefined ? [] : [`reads variables from ${envFile}`]),
    ...(cwd === undefined ? [] : [`runs in ${cwd}`]),
  ]
}

function titleOf(client: string): string {
  return mcpClient(client)?.title ?? client
}
