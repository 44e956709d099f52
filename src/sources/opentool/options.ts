import { z } from 'zod'
import { COMMON_OPTIONS } from '#sources/common/policy-options'
import { refuseOpenCredentials, SERVER_OPTIONS } from '#sources/common/server-options'

/** Another OpenTool server, its functions as tools. */
export const OPENTOOL_OPTIONS = z
  .strictObject({
    type: z.literal('opentool'),
    ...COMMON_OPTIONS,
    ...SERVER_OPTIONS,
  })
  .superRefine(refuseOpenCredentials)

export type OpenToolSourceOptions = z.output<typeof OPENTOOL_OPTIONS>
