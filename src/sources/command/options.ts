import { z } from 'zod'
import { isRecord, type JsonObject } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { ARGV_PART, parametersOf, problemsOfArgv } from '#sources/common/argv-template'
import { COMMON_OPTIONS, HOST_LABEL, POLICY_SHAPE } from '#sources/common/options'

/*
 * The options of a source with `type: 'command'`. `source-types.ts` adds them to the config schema; editors show the comments of the
 * options as hover texts.
 * Invariant: no command gets a `COLLET_` variable of the server.
 */

const MIB = 1024 * 1024
const TEXT = z.string().min(1)

const VARIABLE = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
  error: 'expected the name of an environment variable, for example "GIT_DIR".',
})

const OWN_VARIABLE = 'is a variable of the server itself, whose keys no command may see.'

const SCHEMA: z.ZodType<JsonObject, JsonObject> = z.record(z.string(), z.json())

const INPUT = SCHEMA.refine(({ type }) => type === 'object', {
  error: 'expected a JSON Schema of an object: { "type": "object", "properties": { … } }.',
})

const EXIT_CODE = z.int().min(0).max(255)

const COMMAND = z
  .strictObject({
    /** Program and arguments; `{name}` stands for a parameter. There is no shell. */
    argv: z.array(ARGV_PART).min(1),
    title: TEXT.optional(),
    description: TEXT,
    /** JSON Schema of the parameters; none by default. */
    input: INPUT.default({ type: 'object', properties: {}, additionalProperties: false }),
    /** `json`: the whole input as JSON. `{name}`: the text of that parameter. */
    stdin: z
      .string()
      .regex(/^(?:json|\{[A-Za-z_][A-Za-z0-9_-]*\})$/, { error: 'expected "json" or "{parameter}".' })
      .optional(),
    /** How standard output is read. Default: `json` if `outputSchema` is set and its type is not string, otherwise `text`. */
    output: z.enum(['text', 'json', 'none']).optional(),
    outputSchema: SCHEMA.optional(),
    /** Exit codes that mean success. */
    okExitCodes: z.array(EXIT_CODE).min(1).default([0]),
    /** Exit codes with which the command reports that nothing took effect, so that the same call may run again. */
    retryExitCodes: z.array(EXIT_CODE).default([]),
    /** Environment variables with their values. */
    env: z
      .record(
        VARIABLE,
        z.string().transform((text) => new Secret(text)),
      )
      .default({}),
    /** Variables of the server's own environment that the command may see. */
    inheritEnv: z
      .array(VARIABLE.refine((name) => !name.startsWith('COLLET_'), { error: OWN_VARIABLE }))
      .default([]),
    /** Variable → id of a secret from the caller or the vault. */
    secretEnv: z.record(VARIABLE, TEXT).default({}),
    /** Variable → authorization whose token comes from the caller or the vault. */
    tokenEnv: z.record(VARIABLE, z.strictObject({ id: TEXT, scopes: z.array(TEXT).default([]) })).default({}),
    /** Default: the folder of the configuration. */
    cwd: TEXT.optional(),
    timeoutMs: POLICY_SHAPE.timeoutMs.default(60_000),
    maxOutputBytes: z
      .int()
      .min(1)
      .max(64 * MIB)
      .default(MIB),
    /** Processor time in seconds that each process of the command may use. */
    cpuSeconds: z.int().min(1).max(86_400).optional(),
    /** Address space in MiB that each process of the command may use. */
    memoryMb: z.int().min(1).max(1_048_576).optional(),
    /** In the sandbox: lets the command use the network. */
    network: z.boolean().default(false),
    /** In the sandbox: folders and files that the command may change. */
    writable: z.array(TEXT).default([]),
  })
  .superRefine((command, context) => {
    const { argv, okExitCodes, retryExitCodes } = command
    const problems = problemsOfArgv(argv).map((message) => ({ path: ['argv'], message }))
    for (const problem of [...problems, ...parameterProblems(command)]) {
      context.addIssue({ code: 'custom', ...problem })
    }
    if (retryExitCodes.some((code) => okExitCodes.includes(code))) {
      const message = 'an exit code cannot mean both success and "nothing took effect".'
      context.addIssue({ code: 'custom', path: ['retryExitCodes'], message })
    }
  })

function parameterProblems({ argv, input, stdin }: Pick<CommandOptions, 'argv' | 'input' | 'stdin'>) {
  const { properties } = input
  const declared = Object.keys(isRecord(properties) ? properties : {})
  const used = new Set(parametersOf(argv))
  if (stdin !== undefined && stdin !== 'json') used.add(stdin.slice(1, -1))
  const unknown = [...used].filter((name) => !declared.includes(name))
  const unused = stdin === 'json' ? [] : declared.filter((name) => !used.has(name))
  return [
    ...unknown.map((name) => ({
      path: ['argv'],
      message: `{${name}} is not a parameter: add it to input.properties, or write {{${name}}} for the text itself.`,
    })),
    ...unused.map((name) => ({
      path: ['input', 'properties', name],
      message: `is not used: write {${name}} in argv, or set stdin to "json".`,
    })),
  ]
}

const TIER = 'commands always have the tier exec; leave safetyTier out.'
const REPLAY = 'a command may have effects, so it cannot be deterministic; it can be idempotent.'

/** Commands of this machine as tools: a fixed table, no shell (OWP-86, OWP-87). */
export const COMMAND_OPTIONS = z
  .strictObject({
    type: z.literal('command'),
    ...COMMON_OPTIONS,
    /** Middle of the catalog ids: `x-host-<vendor>-<command>`. */
    vendor: HOST_LABEL.default('local'),
    commands: z.record(HOST_LABEL, COMMAND),
    /** `auto`: use bubblewrap if it works here. `required`: nothing runs without it. */
    isolation: z.enum(['auto', 'required', 'none']).default('auto'),
    /** Folders and files that nothing in the sandbox can see. */
    hide: z.array(TEXT).default(['.collet']),
    /** Maximum number of commands that run at once. */
    maxProcesses: z.int().min(1).max(1_024).default(16),
    /** How long a command may take to stop before it is killed, in milliseconds. */
    killGraceMs: z.int().min(0).max(60_000).default(2_000),
  })
  .superRefine(({ policy, tools }, context) => {
    const entries = [
      [['policy'], policy] as const,
      ...Object.entries(tools).map(([name, each]) => [['tools', name], each] as const),
    ]
    for (const [path, each] of entries) {
      if (each?.safetyTier !== undefined)
        context.addIssue({ code: 'custom', path: [...path, 'safetyTier'], message: TIER })
      if (each?.replay === 'deterministic')
        context.addIssue({ code: 'custom', path: [...path, 'replay'], message: REPLAY })
    }
  })

export type CommandSourceOptions = z.output<typeof COMMAND_OPTIONS>
export type CommandOptions = CommandSourceOptions['commands'][string]
