import { z } from 'zod'
import { isToolError } from '#core/errors'
import { PinDesk } from '#core/imports/pins'
import type { JsonObject } from '#core/json'
import { SILENT_LOGGER } from '#core/runtime'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { askAsOperator, nameAtStore } from './operator-credential.ts'
import { STORE_OPTIONS, withStore } from './operator-store.ts'

/** How commands about pins are told where: the store itself, or a server. */
export const PIN_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:pins. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

export type PinOption = keyof typeof PIN_OPTIONS

const PIN = {
  source: z.string(),
  tool: z.string(),
  native_name: z.string(),
  state: z.string(),
  version: z.string().nullable(),
  hash: z.string().nullable(),
  accepted_by: z.string().nullable(),
  accepted_at: z.string().nullable(),
  waiting: z
    .object({
      kind: z.string(),
      class: z.string(),
      reasons: z.array(z.string()).readonly(),
      hash: z.string(),
      renamed_from: z.string().nullable(),
      seen_at: z.string().nullable(),
      rejected_by: z.string().nullable(),
    })
    .nullable(),
}

/** As `GET /admin/pins` has them. */
export const PIN_LIST = z.object({ pins: z.array(z.object(PIN)) })
/** As `GET /admin/pins/TOOL` has it. */
export const PIN_DIFF = z.object({
  ...PIN,
  next_version: z.string().nullable(),
  differences: z.array(
    z.object({
      where: z.string(),
      class: z.string(),
      says: z.string(),
      before: z.unknown().optional(),
      after: z.unknown().optional(),
    }),
  ),
})
export const PINS_ACCEPTED = z.object({ accepted: z.array(z.string()) })

export type PinRow = z.output<typeof PIN_LIST>['pins'][number]
export type PinDiffRow = z.output<typeof PIN_DIFF>

/** Works on the store of this machine, also while a server uses it: that one sees the change within a second. */
export async function withPins<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (desk: PinDesk, by: string) => Promise<T>,
): Promise<T> {
  try {
    return await withStore(args, context, async (store) =>
      work(new PinDesk({ store, clock: context.clock, log: SILENT_LOGGER }), nameAtStore(context)),
    )
  } catch (error) {
    if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** Asks the server that `--url` names, and reads its answer. */
export async function askAboutPins<T>(
  request: {
    readonly method: 'GET' | 'POST'
    readonly path: string
    readonly body?: JsonObject
    readonly answer: z.ZodType<T>
  },
  args: Arguments<PinOption>,
  context: CommandContext,
): Promise<T> {
  const { path, answer, ...rest } = request
  const parsed = answer.safeParse(await askAsOperator({ ...rest, path: `/admin/pins${path}` }, args, context))
  if (parsed.success) return parsed.data
  throw new CommandFailure(EXIT.server, 'The server gave no pins. Is it a Collet server of this version?')
}
