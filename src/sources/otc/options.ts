import { z } from 'zod'
import { parseToolId, type ToolId } from '#kernel/base/ids'
import { COMMON_OPTIONS, refuseOpenCredentials, SECRET, SERVER_OPTIONS } from '#sources/common/options'
import type { OfferedTool } from '#sources/kit/source'

/*
 * The options of a source with `type: 'otc'`, and the ids that its tools keep. `source-types.ts` adds the options to the config schema.
 * Invariant: an API key or token for the server is refused if `url` is plain http to another machine.
 */

const TEXT = z.string().min(1)

/** The dialects that the client supports. By default, the dialect is detected. */
export const OTC_DIALECTS = ['otc-1.0', 'oxp-1.0', 'oxp-header', 'rfc-call', 'execute', 'uts'] as const

/** Another Open Tool Calling server (OTC, OXP), whose tools are imported. */
export const OTC_OPTIONS = z
  .strictObject({
    type: z.literal('otc'),
    ...COMMON_OPTIONS,
    ...SERVER_OPTIONS,
    dialect: z.enum(OTC_DIALECTS).optional(),
    /** Values for secrets that its tools require, so that callers need not pass them. */
    secrets: z.record(TEXT, SECRET).default({}),
    /** The provider in `oauth.providers` for each authorization that the server names; by default, the one with the same name. */
    providers: z.record(TEXT, TEXT).default({}),
    /** `'claimed'`: tools that need a user id accept the id that the caller states; by default, the user must be verified. */
    userId: z.literal('claimed').optional(),
    /** `'keep'`: all versions of its tools, with their ids on the server. Default: the newest version of each, in the source's toolkit. */
    ids: z.literal('keep').optional(),
  })
  .superRefine(refuseOpenCredentials)

export type OtcSourceOptions = z.output<typeof OTC_OPTIONS>

/** The id that an accepted tool keeps; `undefined` if it gets an id in the toolkit of its source. */
export function keptId(
  { ids }: Pick<OtcSourceOptions, 'ids'>,
  { nativeName }: Pick<OfferedTool, 'nativeName'>,
): ToolId | undefined {
  return ids === 'keep' ? parseToolId(nativeName) : undefined
}
