import { fault, ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import { BadArgument, expandArgv, textOf } from '#sources/common/argv-template'
import { type ProcessEnd, runProcess } from '#sources/common/run-process'
import type { Confinement } from '#sources/common/sandbox'
import { type CommandBinding, readBinding } from './binding.ts'
import { isolationProblem } from './discover.ts'
import type { CommandOptions } from './options.ts'
import { readEnd } from './read-end.ts'
import { confine } from './sandbox.ts'

export interface CommandWorld {
  readonly confinement: Confinement
  /** The variables a command may get from our own process, by name. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Values of the variables that the options set. */
  readonly values: CommandOptions['env']
  readonly killGraceMs: number
  /** Ends every command when the source closes. */
  readonly closing: AbortSignal
}

/** Without these most programs do not work; they tell nothing about this server. */
const HARMLESS_VARIABLES = ['PATH', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ']

/** Runs a command of the accepted definition once (rule 32). */
export async function invokeCommand(
  { nativeName, binding: accepted, input, context }: Invocation,
  world: CommandWorld,
): Promise<JsonValue | undefined> {
  const binding = readBinding(nativeName, accepted)
  const problem = binding.isolation === 'required' ? isolationProblem(binding, world.confinement) : undefined
  if (problem !== undefined) throw notRun(nativeName, problem)
  const isUncapped = binding.cpuSeconds !== null || binding.memoryMb !== null
  if (isUncapped && world.confinement.prlimit === undefined) {
    throw notRun(nativeName, 'cpuSeconds and memoryMb need the program prlimit, which is not found.')
  }
  const [, ...args] = expanded(binding, input)
  const [file = binding.program, ...rest] = await confine(
    [binding.program, ...args],
    binding,
    world.confinement,
  )
  const signal = AbortSignal.any([context.signal, world.closing])
  signal.throwIfAborted()
  const end = await started(nativeName, () =>
    runProcess({
      file,
      args: rest,
      cwd: binding.cwd,
      env: variablesOf(nativeName, binding, { context, world }),
      stdin: stdinOf(binding, input),
      maxOutputBytes: binding.maxOutputBytes,
      killGraceMs: world.killGraceMs,
      signal,
    }),
  )
  signal.throwIfAborted()
  return readEnd(nativeName, end, { binding, hidden: Object.values(world.values) })
}

function expanded(binding: CommandBinding, input: Invocation['input']): readonly string[] {
  try {
    return expandArgv(binding.argv, input)
  } catch (error) {
    if (error instanceof BadArgument) throw new ToolError(error.message, { cause: error })
    throw error
  }
}

function stdinOf({ stdin }: CommandBinding, input: Invocation['input']): string | undefined {
  if (stdin === null) return undefined
  if (stdin === 'json') return JSON.stringify(input)
  const name = stdin.slice(1, -1)
  const value = Object.hasOwn(input, name) ? input[name] : undefined
  return value === undefined || value === null ? '' : textOf(value)
}

/** Nothing of our own environment but what is harmless or named. */
function variablesOf(
  nativeName: string,
  binding: CommandBinding,
  { context, world }: { readonly context: Invocation['context']; readonly world: CommandWorld },
): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const name of [...HARMLESS_VARIABLES, ...binding.inheritEnv]) {
    const value = world.environment[name]
    if (value !== undefined) variables[name] = value
  }
  for (const name of binding.env) {
    const value = world.values[name]
    if (value === undefined) throw notRun(nativeName, `The variable ${name} is no longer in its options.`)
    variables[name] = value.reveal()
  }
  for (const [name, id] of Object.entries(binding.secretEnv)) variables[name] = context.secret(id).reveal()
  for (const [name, id] of Object.entries(binding.tokenEnv)) variables[name] = context.token(id).reveal()
  // Rule 27: what a command may send on, so that a repeated attempt is known for one.
  variables.COLLET_EFFECT_KEY = context.effectKey()
  return variables
}

async function started(nativeName: string, run: () => Promise<ProcessEnd>): Promise<ProcessEnd> {
  try {
    return await run()
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown'
    throw fault('upstream_failed', `The command ${nativeName} could not be started (${code}).`, {
      canRetry: true,
      developerMessage: cause instanceof Error ? cause.message : code,
      cause,
    })
  }
}

/** Refused before anything was started. */
function notRun(nativeName: string, why: string): ToolError {
  return fault(
    'upstream_failed',
    `The command ${nativeName} was not started; ask the operator of this server.`,
    {
      canRetry: true,
      developerMessage: why,
    },
  )
}
