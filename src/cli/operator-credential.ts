import { readFile } from 'node:fs/promises'
import { ConfigError } from '#config/config-error'
import { startTokenFileIn } from '#config/data-files'
import { isLoopback } from '#server/loopback'
import type { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { chosenStore } from './operator-store.ts'

/**
 * What lets an operator decide about calls (rule 29): `--key`, else the start token of the server on this machine,
 * else `COLLET_API_KEY`. The start token is only ever sent to this machine.
 */
export async function operatorCredential(
  url: string,
  args: Arguments<'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<string> {
  const credential =
    args.text('key') ??
    (isLoopback(new URL(url).hostname) ? await readStartToken(url, args, context) : undefined) ??
    context.environment.apiKey?.reveal()
  if (credential !== undefined) return credential
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
