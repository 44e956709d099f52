import { fault } from '#kernel/base/errors'
import { isWanted } from '#sources/common/options'
import { type Confinement, DEFAULT_PATH, findConfinement } from '#sources/common/process'
import type { Source, SourceHealth, SourceServices } from '#sources/kit/source'
import { commandPolicy, discoverCommands, isolationProblem } from './discover.ts'
import { invokeCommand } from './invoke.ts'
import type { CommandSourceOptions } from './options.ts'

/**
 * Commands of this machine as a source of tools.
 */

export function createCommandSource(
  key: string,
  options: CommandSourceOptions,
  services: SourceServices,
): Source {
  const path = services.environment?.PATH || DEFAULT_PATH
  const environment = { ...services.environment, PATH: path }
  const closing = new AbortController()
  const running = new Set<Promise<unknown>>()
  let confinement: Promise<Confinement> | undefined
  let health: SourceHealth = { state: 'starting', reason: 'Its commands have not been checked yet.' }
  const findBounds = async (isFresh: boolean): Promise<Confinement> => {
    if (isFresh) confinement = undefined
    confinement ??= findConfinement(path)
    return await confinement
  }
  return {
    key,
    type: 'command',
    kind: 'host-extension',
    vendor: options.vendor,
    async discover() {
      const found = await findBounds(true)
      const discovery = await discoverCommands({ options, folder: services.folder, path, confinement: found })
      health = healthOf(discovery.warnings, isolationProblem(options, found), options)
      return discovery
    },
    async invoke(invocation) {
      if (running.size >= options.maxProcesses) {
        throw fault(
          'upstream_failed',
          `${running.size} commands are already running; try again in a moment.`,
          {
            canRetry: true,
            retryAfterMs: 1_000,
          },
        )
      }
      const run = findBounds(false).then((found) =>
        invokeCommand(invocation, {
          confinement: found,
          environment,
          values: options.commands[invocation.nativeName]?.env ?? {},
          killGraceMs: options.killGraceMs,
          closing: closing.signal,
        }),
      )
      running.add(run)
      try {
        return await run
      } finally {
        running.delete(run)
      }
    },
    policyFor: ({ nativeName }) => commandPolicy(nativeName, options),
    wants: ({ nativeName }) => Object.hasOwn(options.commands, nativeName) && isWanted(nativeName, options),
    health: () => health,
    async close() {
      closing.abort(fault('cancelled', 'The server is shutting down.'))
      await Promise.allSettled(running)
    },
  }
}

function healthOf(
  warnings: readonly string[],
  problem: string | undefined,
  { isolation }: CommandSourceOptions,
): SourceHealth {
  if (problem !== undefined && isolation === 'required') return { state: 'down', reason: problem }
  return warnings.length === 0 ? { state: 'ready' } : { state: 'degraded', reason: warnings.join(' ') }
}
