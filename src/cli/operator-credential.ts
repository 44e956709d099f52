import { readFile } from 'node:fs/promises'
import { ConfigError } from '#config/load'
import { startTokenFileIn } from '#config/to-settings'
import { cleanText, type JsonObject } from '#core/json'
import { isLoopback } from '#server/safety'
import type { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { type JsonRequest, requestJson } from './http-json.ts'
import { loadProjectConfig } from './load-project.ts'
import { chosenStore } from './operator-store.ts'
import { readServerAddress } from './server-address.ts'

/** A server that listens everywhere listens here too. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', 'localhost', '::1'])

export type OperatorOption = 'url' | 'key' | 'store' | 'config'

/** Whether a command that could work on the store asks a server instead: one was named, or who to be there. */
export function asksServer(args: Arguments<'url' | 'key'>): boolean {
  return args.text('url') !== undefined || args.text('key') !== undefined
}

/** One request to a server's routes for operators. What changes something says on stderr as whom it was done. */
export async function askAsOperator(
  request: Pick<JsonRequest, 'method' | 'body'> & { readonly path: string },
  args: Arguments<OperatorOption>,
  context: CommandContext,
): Promise<JsonObject> {
  const { path, ...rest } = request
  const url = await serverOf(args, context)
  const { credential, from } = await operatorCredential(url, args, context)
  const onActing = (principal: string): void => tellActing(`${cleanText(principal)} (${from})`, context)
  return await requestJson(
    { ...rest, url: `${url}${path}`, credential, ...(rest.method === 'GET' ? {} : { onActing }) },
    context.services.fetch,
  )
}

/** `--url` or `COLLET_URL`; else the server that the config is of. */
async function serverOf(args: Arguments<OperatorOption>, context: CommandContext): Promise<string> {
  const { url } = readServerAddress(args, context)
  const isNamed = args.text('url') !== undefined || context.environment.url !== undefined
  const config = args.text('config')
  if (isNamed || (args.text('store') !== undefined && config === undefined)) return url
  try {
    const { host, port } = (await loadProjectConfig(config, context)).config.server
    if (port === 0) return url
    return `http://${ANY_HOST.has(host) ? '127.0.0.1' : host}:${port}`
  } catch (error) {
    if (error instanceof ConfigError && config === undefined) return url
    throw error
  }
}

/** Whoever can open the store with its key may decide about everything in it, under the name it has on this machine. */
export function nameAtStore({ userName }: CommandContext): string {
  return `cli:${userName}`
}

/** The same for what changes something, said on stderr. */
export function actAtStore(context: CommandContext): string {
  const id = nameAtStore(context)
  tellActing(`${id} (the store itself)`, context)
  return id
}

function tellActing(who: string, { output }: CommandContext): void {
  output.note(`as ${who}`)
}

interface OperatorCredential {
  readonly credential: string
  /** Where it was found, in words. */
  readonly from: string
}

/**
 * What lets an operator decide about calls (rule 29). What somebody gave wins: `--key`, then `COLLET_API_KEY`; only
 * without either it is the start token of the server on this machine, which is sent nowhere else.
 */
async function operatorCredential(
  url: string,
  args: Arguments<OperatorOption>,
  context: CommandContext,
): Promise<OperatorCredential> {
  const key = args.text('key')
  if (key !== undefined) return { credential: key, from: '--key' }
  const variable = context.environment.apiKey?.reveal()
  if (variable !== undefined) return { credential: variable, from: 'COLLET_API_KEY' }
  const token = isLoopback(new URL(url).hostname) ? await readStartToken(url, args, context) : undefined
  if (token !== undefined) return { credential: token, from: 'start token' }
  throw new CommandFailure(
    EXIT.usage,
    `${url} needs a credential: --key, COLLET_API_KEY, or the start token of a server that runs here (name its --config or --store, and --url if it listens elsewhere).`,
  )
}

async function readStartToken(
  url: string,
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<string | undefined> {
  try {
    const { dataFolder } = await chosenStore(args, context)
    return (await readFile(startTokenFileIn(dataFolder, url), 'utf8')).trim() || undefined
  } catch (error) {
    const absent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (
      absent ||
      (error instanceof ConfigError && args.text('store') === undefined && args.text('config') === undefined)
    ) {
      return undefined
    }
    throw error
  }
}
