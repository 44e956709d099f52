import { z } from 'zod'
import type { JsonObject } from '#core/json'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { askAsOperator } from './operator-credential.ts'
import { STORE_OPTIONS } from './operator-store.ts'

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
  return await askAsOperator({ ...request, path: `/admin/sources${request.path}` }, args, context)
}

/** Reads the part of an answer that is known; else this is another server or version. */
export function readAnswer<T>(shape: z.ZodType<T>, answer: JsonObject): T {
  const parsed = shape.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new CommandFailure(EXIT.server, 'The server gave no sources. Is it a Collet server of this version?')
}
