import { z } from 'zod'
import { COMMON_OPTIONS, refuseOpenCredentials, SERVER_OPTIONS } from '#sources/common/options'

/*
 * The options of a source with `type: 'opentool'`. `source-types.ts` adds them to the config schema.
 * Invariant: a credential needs a `url` in the options, so that no document decides where it is sent.
 */

/** Another OpenTool server, whose functions are imported as tools. */
export const OPENTOOL_OPTIONS = z
  .strictObject({
    type: z.literal('opentool'),
    ...COMMON_OPTIONS,
    ...SERVER_OPTIONS,
    /** Address of the server; may be left out if `document` states it. */
    url: SERVER_OPTIONS.url.optional(),
    /** File (relative to the configuration's folder) or address of the document, for a server that does not serve its document. */
    document: z.string().min(1).optional(),
    /** `any` for a server whose results do not match its document. */
    output: z.enum(['declared', 'any']).default('declared'),
  })
  .superRefine(({ url, document, apiKey, token }, context) => {
    if (url !== undefined) return refuseOpenCredentials({ url, apiKey, token }, context)
    const hasCredential = apiKey !== undefined || token !== undefined
    const message =
      document === undefined
        ? 'expected `url`, the server, or `document`, the file or address of a document that names it.'
        : 'a credential needs `url`, because a document must not decide where the credential is sent.'
    if (document === undefined || hasCredential) context.addIssue({ code: 'custom', path: ['url'], message })
  })

export type OpenToolSourceOptions = z.output<typeof OPENTOOL_OPTIONS>
