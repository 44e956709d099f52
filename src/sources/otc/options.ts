import { z } from 'zod'
import { parseToolId, type ToolId } from '#kernel/base/ids'
import { COMMON_OPTIONS, refuseOpenCredentials, SECRET, SERVER_OPTIONS } from '#sources/common/options'
import type { OfferedTool } from '#sources/kit/source'

const TEXT = z.string().min(1)

/** The dialects a client can speak; found out by itself by default. */
export const OTC_DIALECTS = ['otc-1.0', 'oxp-1.0', 'oxp-header', 'rfc-call', 'execute', 'uts'] as const

/** Another Open Tool Calling server (OTC, OXP), its tools as ours. */
export const OTC_OPTIONS = z
  .strictObject({
    type: z.literal('otc'),
    ...COMMON_OPTIONS,
    ...SERVER_OPTIONS,
    dialect: z.enum(OTC_DIALECTS).optional(),
    /** Values for secrets that its tools require, so that callers need not bring them. */
    secrets: z.record(TEXT, SECRET).default({}),
    /** Its name of an authorization → ours in `oauth.providers`. The same name by default. */
    providers: z.record(TEXT, TEXT).default({}),
    /** `'claimed'`: the caller's word is enough for its tools that need a user id; without it the user has to be proven. */
    userId: z.literal('claimed').optional(),
    /** `'keep'`: its tools have the ids they have there, all versions. Default: the newest version of each, in our toolkit. */
    ids: z.literal('keep').optional(),
  })
  .superRefine(refuseOpenCredentials)

export type OtcSourceOptions = z.output<typeof OTC_OPTIONS>

/** The id that an accepted tool keeps; `undefined` when it gets one in the toolkit of its source. */
export function keptId(
  { ids }: Pick<OtcSourceOptions, 'ids'>,
  { nativeName }: Pick<OfferedTool, 'nativeName'>,
): ToolId | undefined {
  return ids === 'keep' ? parseToolId(nativeName) : undefined
}
