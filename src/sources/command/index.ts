import { fault } from '#kernel/base/errors'
import { isWanted } from '#sources/common/options'
import { type Confinement, DEFAULT_PATH, findConfinement } from '#sources/common/process'
import type { Source, SourceHealth, SourceServices } from '#sources/kit/source'
import { commandPolicy, discoverCommands, isolationProblem } from './discover.ts'
import { invokeCommand } from './invoke.ts'
import type { CommandSourceOptions } from './options.ts'

/**
 * Commands of this machine as a source of tools: checks them, limits how many run at once and reports their health.
 * `source-types.ts` opens it. Invariant: `close` returns only when every running command has ended.
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
  return {
    key,
    type: 'command',
    kind: 'host-extension',
    vendor: options.vendor,
    async discover() {
      confinement = findConfinement(path)
      const found = await confinement
      const discovery = await discoverCommands({ options, folder: services.folder, path, confinement: found })
      health = healthOf(discovery.warnings, isolationProblem(options, found), options)
      return discovery
    },
    async invoke(invocation) {
      if (running.size >= options.maxProcesses) {
        const message = `${running.size} commands are already running; try again in a moment.`
        throw fault('upstream_failed', message, { canRetry: true, retryAfterMs: 1_000 })
      }
      confinement ??= findConfinement(path)
      const run = confinement.then((found) =>
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
