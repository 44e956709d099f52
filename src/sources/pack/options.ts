import { z } from 'zod'
import { COMMON_OPTIONS } from '#sources/common/options'

/*
 * The options of a source with `type: 'pack'`, and the permissions of packs.
 * `source-types.ts` puts them into the config schema.
 * Invariant: a permission that is not listed here cannot be requested or granted.
 */

/** The only permissions that a pack may request (openwop §7.2, OWP-88). */
export const NEEDS = [
  'net.dns',
  'net.outbound',
  'crypto',
  'subprocess',
  'fs.read',
  'fs.write',
  'env.read',
  'clock',
] as const
export type Need = (typeof NEEDS)[number]

/** Permissions that are harmless and cannot be withheld. */
const GRANTED: readonly Need[] = ['crypto', 'clock']

const TEXT = z.string().min(1)
const VARIABLE = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
  error: 'expected the name of an environment variable, for example "TZ".',
})

/** Tools of a package or folder (openwop's node-pack). */
export const PACK_OPTIONS = z
  .strictObject({
    type: z.literal('pack'),
    ...COMMON_OPTIONS,
    /** Name of an installed npm package, found from the folder of the configuration. */
    package: TEXT.optional(),
    /** Folder or file, relative to the folder of the configuration. */
    path: TEXT.optional(),
    /** Permissions of the pack. If it needs more, none of its tools are served. */
    grant: z.array(z.enum(NEEDS)).default([...GRANTED]),
    /** True to use the author's tier, replay and egress; otherwise every tool is `write` (OWP-33). */
    trustPolicy: z.boolean().default(false),
    /** `process`: in a separate process, with limits, and Node's permission model for files and programs. */
    isolation: z.enum(['none', 'process']).default('none'),
    /** With `process`: run it in bubblewrap. `auto`: if bubblewrap works here. `required`: nothing runs without it. */
    sandbox: z.enum(['auto', 'required', 'none']).default('auto'),
    /** With `process`: heap limit of the process, in MiB. */
    memoryMb: z.int().min(32).max(65_536).default(256),
    /** With `process`: maximum number of calls that it runs at once. */
    maxCalls: z.int().min(1).max(10_000).default(64),
    /** With `process`: how long a call may take to stop before its process is killed. */
    killGraceMs: z.int().min(0).max(60_000).default(1_000),
    /** With `process` and `fs.read`: files and folders that it may read; all by default. */
    readable: z.array(TEXT).optional(),
    /** With `process` and `fs.write`: files and folders that it may change; none by default. */
    writable: z.array(TEXT).default([]),
    /** With `process` and `env.read`: environment variables of the server that it may see. */
    env: z.array(VARIABLE).default([]),
  })
  .superRefine((options, context) => {
    const named = [options.package, options.path].filter((each) => each !== undefined)
    if (named.length !== 1) {
      const message = 'expected either "package", an installed package, or "path", a folder or file.'
      context.addIssue({ code: 'custom', path: ['package'], message })
    }
    if (options.sandbox === 'required' && options.isolation !== 'process') {
      context.addIssue({ code: 'custom', path: ['sandbox'], message: 'needs isolation: "process".' })
    }
    for (const [key, need] of LISTS) {
      const isSet = (options[key]?.length ?? 0) > 0
      if (!isSet || options.grant.includes(need)) continue
      context.addIssue({ code: 'custom', path: [key], message: `needs grant: ["${need}"].` })
    }
  })

const LISTS = [
  ['readable', 'fs.read'],
  ['writable', 'fs.write'],
  ['env', 'env.read'],
] as const satisfies readonly (readonly ['readable' | 'writable' | 'env', Need])[]

export type PackOptions = z.output<typeof PACK_OPTIONS>
