import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Arguments, type CommandContext, CommandFailure, defineCommand, EXIT, UsageError } from '#cli/command'
import { counted } from '#cli/output'
import {
  callerKey,
  connectionAdvice,
  fetchFrom,
  findServer,
  NO_SERVER_THERE,
  SERVER_OPTIONS,
  type ServerAddress,
} from '#cli/server-address'
import { CallFailure, type FailureClass, type RemoteTool } from '#client/index'
import { indexTools, spellings } from '#client/tool-directory'
import { cleanText, type JsonObject } from '#kernel/base/json'
import { matchesGlob } from '#kernel/tool/toolsets'
import { type NamedTool, type ToolTypes, writeToolTypes } from '#typescript/tool-types'

/**
 * `collet types`: writes the TypeScript types of a server's tools for `connect<Tools>(url)` of `collet/client`. It
 * lists tools with the caller's credential, so the file has the tools that this caller may use.
 * Invariant: an unchanged catalog gives an unchanged file, and a file that the command did not write is not replaced.
 */

const TYPES_OPTIONS = {
  ...SERVER_OPTIONS,
  output: { value: 'FILE', short: 'o', help: 'Write this file. Default: standard output.' },
  check: { help: 'Write nothing; exit with 1 if the file of --output is not up to date.' },
  toolset: { value: 'NAME', help: 'Only the tools of this toolset.' },
  include: {
    value: 'PATTERN',
    many: true,
    help: "Only tools with a name that matches, for example 'Crm.*'. May be given several times.",
  },
  search: { value: 'TEXT', help: 'Only the tools that fit a task in your own words, at most 50.' },
} as const

type TypesOption = keyof typeof TYPES_OPTIONS

export const types = defineCommand<TypesOption>({
  name: 'types',
  summary: "Writes the TypeScript types of a server's tools, for the typed client of collet/client.",
  details: [
    'The file has an interface Tools with one entry for each tool: its other names, and the types of its input and output. Pass it to',
    'connect<Tools>(url). A type accepts every value that the schema accepts; where it accepts more, the comment of the tool says so.',
  ],
  positionals: [{ name: 'URL', optional: true, help: 'The server; the same as --url.' }],
  options: TYPES_OPTIONS,
  examples: [
    'collet types http://127.0.0.1:4100 > tools.d.ts',
    "collet types --include 'Crm.*' -o src/crm-tools.d.ts",
    'collet types -o src/tools.d.ts --check',
  ],
  async run(args, context) {
    const { output, json, workingFolder } = context
    const file = args.text('output')
    const isCheck = args.flag('check')
    if (isCheck && file === undefined)
      throw new UsageError('--check needs the file to compare: --output FILE.')
    const server = await findServer(serverArguments(args), context)
    const tools = await readTools(server, args, context)
    const written = writeToolTypes(tools)
    const isCurrent = file !== undefined && (await compareFile(resolve(workingFolder, file), written.text))
    if (file !== undefined && !isCurrent && !isCheck)
      await writeFile(resolve(workingFolder, file), written.text)
    if (json) {
      const state = {
        file: file ?? null,
        tools: tools.length,
        is_current: isCurrent,
        widened: written.widened,
      }
      output.json({ ...state, text: file === undefined ? written.text : null })
    } else {
      if (file === undefined) output.data(written.text.trimEnd())
      report({ file, isCurrent, isCheck, count: tools.length, written }, context)
    }
    return isCheck && !isCurrent ? EXIT.toolFailed : EXIT.ok
  },
})

/** Accepts the address as an argument too, in place of `--url`. */
function serverArguments(args: Arguments<TypesOption>): Arguments<'url' | 'config'> {
  const [url] = args.positionals
  if (url === undefined) return args
  if (args.text('url') !== undefined) throw new UsageError('The server is named twice: as URL and as --url.')
  return new Arguments(
    [],
    new Map([
      ['url', [url]],
      ['config', args.texts('config')],
    ]),
    new Set(),
  )
}

/** The tools that the options select, with their names. */
async function readTools(
  server: ServerAddress,
  args: Arguments<TypesOption>,
  context: CommandContext,
): Promise<readonly NamedTool[]> {
  const { services, output } = context
  const client = await services.connect(server.url, {
    apiKey: callerKey(args, context),
    toolset: args.text('toolset'),
    fetch: fetchFrom(server, services),
  })
  const text = args.text('search')
  const asking = async () => ({
    all: await client.list(),
    found: text === undefined ? undefined : (await client.search(text, { limit: MAX_FOUND })).found,
  })
  const { all, found } = await output.during(`Asking ${server.url}`, asking()).catch((error: unknown) => {
    throw error instanceof CallFailure ? failureOf(error, server) : error
  })
  if (all.length === 0) throw new CommandFailure(EXIT.usage, noTools(server))
  const ids = found === undefined ? undefined : new Set(found.map(({ id }) => id))
  const patterns = args.texts('include')
  const chosen = nameTools(all).filter(
    ({ tool, name, others }) =>
      (ids?.has(tool.id) ?? true) &&
      (patterns.length === 0 ||
        [name, ...others].some((each) => patterns.some((pattern) => matchesGlob(each, pattern)))),
  )
  if (chosen.length > 0) return chosen
  throw new CommandFailure(
    EXIT.usage,
    `None of the ${counted(all.length, 'tool')} of ${server.url} matches the options.\n  collet tools --url ${server.url} lists their names.`,
  )
}

const MAX_FOUND = 50

/** Each tool with the names that no other tool has. The newest version is named without its version. */
export function nameTools(tools: readonly RemoteTool[]): readonly NamedTool[] {
  const find = indexTools(tools)
  return tools.flatMap((tool): readonly NamedTool[] => {
    const own = spellings(tool).filter((each) => find(each) === tool)
    const [name, ...others] = own
    return name === undefined ? [] : [{ tool: { ...tool, input: withHidden(tool) }, name, others }]
  })
}

/** Adds the parameters that models do not see and applications fill in, as any value, because the client does not keep their schemas. */
function withHidden({ input, nonInferrable = [] }: RemoteTool): JsonObject {
  if (nonInferrable.length === 0) return input
  const hidden = { properties: Object.fromEntries(nonInferrable.map((name) => [name, {}])) }
  return { allOf: [input, hidden] }
}

/** Whether the file exists and has this text. Throws for a file that the command did not write. */
async function compareFile(path: string, text: string): Promise<boolean> {
  const found = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined || found.trim() === '') return false
  if (found.includes('written by `collet types`')) return found === text
  throw new CommandFailure(
    EXIT.usage,
    `${path} was not written by "collet types", so it is not replaced.\n  Choose another file for --output, or remove this one.`,
  )
}

interface Reported {
  readonly file: string | undefined
  readonly isCurrent: boolean
  readonly isCheck: boolean
  readonly count: number
  readonly written: ToolTypes
}

function report({ file, isCurrent, isCheck, count, written }: Reported, { output }: CommandContext): void {
  const tools = counted(count, 'tool')
  if (file !== undefined) {
    if (isCurrent) output.done(`${file} is up to date: ${tools}.`)
    else if (isCheck) output.error(`${file} is not up to date. Run the command again without --check.`)
    else output.done(`Wrote the types of ${tools} to ${file}.`)
  }
  const { widened } = written
  if (widened.length === 0) return
  const named = widened.slice(0, MAX_NAMED).map(({ tool }) => cleanText(tool))
  const more = widened.length > named.length ? ` and ${widened.length - named.length} more` : ''
  output.warn(
    `The types of ${named.join(', ')}${more} accept more than the schemas; the comments in the file say where.`,
  )
}

const MAX_NAMED = 5

const ADVICE: Partial<Record<FailureClass, string>> = {
  unauthenticated: 'Pass an API key with --key, or set COLLET_API_KEY.',
  server: 'collet toolsets lists the toolsets of the config; collet doctor checks the server.',
}

function failureOf(failure: CallFailure, { url, from }: ServerAddress): CommandFailure {
  const isUnreachable = failure.class === 'transport'
  const advice = isUnreachable ? (connectionAdvice(failure.cause) ?? NO_SERVER_THERE) : ADVICE[failure.class]
  const lines = [
    failure.message,
    `  Address: ${url} (from ${from})`,
    ...(advice === undefined ? [] : [`  ${advice}`]),
  ]
  return new CommandFailure(failure.class === 'config' ? EXIT.usage : EXIT.server, lines.join('\n'), {
    cause: failure,
  })
}

function noTools({ url }: ServerAddress): string {
  return `${url} lists no tools for this caller.\n  collet tools --url ${url} shows what the server has. If a key is needed to see them, pass it with --key.`
}
