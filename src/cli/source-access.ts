import { z } from 'zod'
import { ConfigError } from '#config/config-error'
import type { JsonObject } from '#core/json'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { loadProjectConfig } from './load-project.ts'
import { askAsOperator } from './operator-credential.ts'
import { STORE_OPTIONS } from './operator-store.ts'
import { readServerAddress } from './server-address.ts'

/** A server that listens everywhere listens here too. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::', 'localhost', '::1'])

/** Sources live in a running server: only that knows how they are. */
export const SOURCE_COMMAND_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Server to talk to. Default: COLLET_URL, or the address of the config.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:sources. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

export type SourceCommandOption = keyof typeof SOURCE_COMMAND_OPTIONS

/** As `GET /admin/sources` has them. */
export const SOURCE_ROW = z.object({
  key: z.string(),
  type: z.string(),
  kind: z.string(),
  state: z.string(),
  reason: z.string().nullable(),
  tools: z.number(),
  offered: z.number().nullable(),
  waiting: z.number(),
  read_at: z.string().nullable(),
  warnings: z.array(z.string()),
  left_out: z.array(z.object({ tool: z.string(), problem: z.string(), fix: z.string() })),
})

export type SourceRow = z.output<typeof SOURCE_ROW>

export async function askAboutSources(
  request: { readonly method: 'GET' | 'POST' | 'DELETE'; readonly path: string; readonly body?: JsonObject },
  args: Arguments<SourceCommandOption>,
  context: CommandContext,
): Promise<JsonObject> {
  const url = await serverOf(args, context)
  return await askAsOperator({ ...request, url, path: `/admin/sources${request.path}` }, args, context)
}

/** `--url` or `COLLET_URL`; else the server that the config is of, which has these sources. */
async function serverOf(args: Arguments<SourceCommandOption>, context: CommandContext): Promise<string> {
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

/** Reads the part of an answer that is known; else this is another server or version. */
export function readAnswer<T>(shape: z.ZodType<T>, answer: JsonObject): T {
  const parsed = shape.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new CommandFailure(EXIT.server, 'The server gave no sources. Is it a Collet server of this version?')
}
