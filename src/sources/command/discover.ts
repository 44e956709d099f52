import { resolve } from 'node:path'
import { z } from 'zod'
import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { PolicyDefinition, ToolRequirements } from '#kernel/tool/tool'
import { ARGV_PART, type ArgvPart, exposedParameters } from '#sources/common/argv-template'
import { isWanted, policyOf } from '#sources/common/options'
import { type Confinement, findProgram } from '#sources/common/process'
import type { Discovery, OfferedTool } from '#sources/kit/source'
import type { CommandOptions, CommandSourceOptions } from './options.ts'

/**
 * Offers configured commands as tools, and declares the binding that a call uses. `index.ts` and `invoke.ts` use it.
 * Invariant: a command is offered only if this machine can run it with its limits.
 */

interface CommandHost {
  readonly options: CommandSourceOptions
  readonly folder: string
  readonly path: string
  readonly confinement: Confinement
}

/** Offers the commands as tools. A command whose program or limit is not available on this machine is left out. */
export async function discoverCommands(host: CommandHost): Promise<Discovery> {
  const { options } = host
  const read = await Promise.all(
    Object.entries(options.commands)
      .filter(([name]) => isWanted(name, options))
      .map(([name, command]) => offer(name, command, host)),
  )
  const leftOutReasons = read.filter((each) => typeof each === 'string')
  const problem = isolationProblem(options, host.confinement)
  return {
    identity: { type: 'command', vendor: options.vendor },
    tools: read.filter((each) => typeof each !== 'string'),
    warnings: [...(problem === undefined ? [] : [problem]), ...leftOutReasons],
    // Includes commands that this machine cannot run, because the operator did configure them.
    leftOut: Object.keys(options.commands),
  }
}

/** The warning about commands that are not confined; `undefined` if they are, or if the operator turned isolation off. */
export function isolationProblem(
  { isolation }: Pick<CommandSourceOptions, 'isolation'>,
  { bwrap, unavailableReason }: Confinement,
): string | undefined {
  if (bwrap !== undefined || isolation === 'none') return undefined
  return isolation === 'required'
    ? `No command runs: isolation is required, and ${unavailableReason}.`
    : `Commands run without isolation, with all rights of this server: ${unavailableReason}. Install bubblewrap, or set isolation to "none" to accept this.`
}

/** The tool, or the reason why it is left out. */
async function offer(
  name: string,
  command: CommandOptions,
  host: CommandHost,
): Promise<OfferedTool | string> {
  const { options, confinement } = host
  const [first] = command.argv
  const program = typeof first === 'string' ? await findProgram(first, host) : undefined
  if (program === undefined)
    return `${name} is left out: the program ${String(first)} does not exist or is not executable.`
  const isCapped = command.cpuSeconds !== undefined || command.memoryMb !== undefined
  if (isCapped && confinement.prlimit === undefined) {
    return `${name} is left out: cpuSeconds and memoryMb need the program prlimit, which is not found.`
  }
  return defined({
    nativeName: name,
    title: command.title,
    description: command.description,
    inputSchema: guardOperands(command.input, command.argv),
    outputSchema: outputSchemaOf(command),
    requirements: requirementsOf(command),
    policy: commandPolicy(name, options),
    binding: bindingOf(command, program, host),
  })
}

/** The policy of a command. Its tier and egress are fixed (OWP-31, OWP-37). */
export function commandPolicy(name: string, options: CommandSourceOptions): PolicyDefinition {
  const command = Object.hasOwn(options.commands, name) ? options.commands[name] : undefined
  const defaults = defined({ approval: 'always', timeoutMs: command?.timeoutMs })
  return { ...policyOf(name, options, defaults), safetyTier: 'exec', egress: 'host-owned' }
}

function bindingOf(
  command: CommandOptions,
  program: string,
  { options, folder }: CommandHost,
): CommandBinding {
  return {
    vendor: options.vendor,
    program,
    argv: command.argv,
    stdin: command.stdin ?? null,
    output: outputOf(command),
    okExitCodes: command.okExitCodes,
    retryExitCodes: command.retryExitCodes,
    env: Object.keys(command.env),
    inheritEnv: command.inheritEnv,
    secretEnv: command.secretEnv,
    tokenEnv: Object.fromEntries(Object.entries(command.tokenEnv).map(([name, { id }]) => [name, id])),
    cwd: resolve(folder, command.cwd ?? '.'),
    maxOutputBytes: command.maxOutputBytes,
    cpuSeconds: command.cpuSeconds ?? null,
    memoryMb: command.memoryMb ?? null,
    isolation: options.isolation,
    network: command.network,
    writable: command.writable.map((path) => resolve(folder, path)),
    hide: options.hide.map((path) => resolve(folder, path)),
  }
}

function outputOf({ output, outputSchema }: CommandOptions): CommandBinding['output'] {
  if (output !== undefined) return output
  return outputSchema === undefined || outputSchema.type === 'string' ? 'text' : 'json'
}

function outputSchemaOf(command: CommandOptions): JsonObject | null {
  const output = outputOf(command)
  if (output === 'none') return null
  return command.outputSchema ?? (output === 'text' ? { type: 'string' } : {})
}

function requirementsOf({ secretEnv, tokenEnv }: CommandOptions): ToolRequirements | undefined {
  const secrets = [...new Set(Object.values(secretEnv))].map((id) => ({ id }))
  const ids = [...new Set(Object.values(tokenEnv).map(({ id }) => id))]
  const authorization = ids.map((id) => {
    const scopes = Object.values(tokenEnv).flatMap((token) => (token.id === id ? token.scopes : []))
    return { id, oauth2: { scopes: [...new Set(scopes)] } }
  })
  if (secrets.length === 0 && authorization.length === 0) return undefined
  return {
    ...(authorization.length === 0 ? {} : { authorization }),
    ...(secrets.length === 0 ? {} : { secrets }),
  }
}

/** Pattern for a string that does not begin with "-"; it takes linear time in every engine. */
const NO_OPTION = '^(?:[^-]|$)'

/** States in the schema that an operand must not look like an option, so that callers see this rule before an approval (OWP-87). */
function guardOperands(input: JsonObject, argv: readonly ArgvPart[]): JsonObject {
  const { properties } = input
  if (!isJsonObject(properties)) return input
  const exposed = exposedParameters(argv)
  const guarded = Object.entries(properties).map(([name, schema]) => [
    name,
    exposed.has(name) ? guard(schema) : schema,
  ])
  return { ...input, properties: Object.fromEntries(guarded) }
}

function guard(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  if (schema.type === 'array' && isJsonObject(schema.items)) return { ...schema, items: guard(schema.items) }
  if (schema.type !== 'string' || schema.enum !== undefined || schema.const !== undefined) return schema
  const described = { ...schema, description: withOptionRule(schema.description) }
  if (schema.pattern === undefined) return { ...described, pattern: NO_OPTION }
  const others: readonly JsonValue[] = Array.isArray(schema.allOf) ? schema.allOf : []
  return { ...described, allOf: [...others, { pattern: NO_OPTION }] }
}

/** Adds the rule to the description as text, because a pattern is hard to read. */
function withOptionRule(description: JsonValue | undefined): string {
  const rule = 'Must not begin with "-".'
  return typeof description === 'string' && description !== '' ? `${description} ${rule}` : rule
}

/** Everything that determines which program runs and how, except the values of variables, which may be secrets (rule 32). */
export const BINDING = z.object({
  vendor: z.string(),
  program: z.string(),
  argv: z.array(ARGV_PART).min(1),
  stdin: z.string().nullable(),
  output: z.enum(['text', 'json', 'none']),
  okExitCodes: z.array(z.number()),
  retryExitCodes: z.array(z.number()),
  env: z.array(z.string()),
  inheritEnv: z.array(z.string()),
  secretEnv: z.record(z.string(), z.string()),
  tokenEnv: z.record(z.string(), z.string()),
  cwd: z.string(),
  maxOutputBytes: z.number(),
  cpuSeconds: z.number().nullable(),
  memoryMb: z.number().nullable(),
  isolation: z.enum(['auto', 'required', 'none']),
  network: z.boolean(),
  writable: z.array(z.string()),
  hide: z.array(z.string()),
})

export type CommandBinding = z.output<typeof BINDING>
