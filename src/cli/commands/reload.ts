import { RELOAD_CONFIG } from '#admin-api/server'
import { AdminClient, adminOptions } from '#cli/admin-client'
import { type CommandContext, EXIT } from '#cli/command'
import { operatorCommand } from '#cli/operator-command'
import type { Output } from '#cli/output'
import { isStoreAlone, problemText } from '#cli/store-access'
import { ConfigError } from '#config/load'
import type { Settings } from '#config/settings'
import { createReloadRoutesOnStore } from '#server/admin/reload'
import { type ConfigSource, isRefusal } from '#server/reload'
import type { RunningServer } from '#server/running-server'

/**
 * `collet reload`: asks one server, or all servers of a store, to read their config again. It also exports
 * `configSource`, through which a server started by `serve` or `dev` does so. Invariant: a config with errors is
 * refused with its problems, and the previous one stays in force.
 */

const reload = operatorCommand({
  name: 'reload',
  summary: 'Makes servers reload their config, without a restart.',
  details: [
    'It asks the server that the config or --url names, which reports what changed; all other servers on the same store follow within a second or two,',
    'each with its own file. With --store alone all of them are asked through the store; their logs show the result.',
    'Credentials, roles, toolsets, limits, budgets, approvals, webhooks, sources and log.level change at once, and a new certificate is used; other changes are listed.',
  ],
  options: {
    ...adminOptions('admin:reload'),
    url: { value: 'U', help: 'Server to ask. Default: COLLET_URL, or the address in the config.' },
  },
  examples: ['collet reload', 'collet reload --store postgres://collet@db.internal/collet'],
  client: (args, context) =>
    new AdminClient(args, context, {
      asksServer: !isStoreAlone(args),
      onStore: ({ store, access }) => createReloadRoutesOnStore(access, store.reloads),
    }),
  operation: RELOAD_CONFIG,
  print({ applied, needs_restart: needRestart = [], refused = [] }, { output }) {
    if (applied === null)
      output.note('The servers on this store were asked to reload; their logs show the result.')
    else printReloaded({ applied, needRestart, refused }, output)
  },
  exit: ({ refused = [] }) => (refused.length > 0 ? EXIT.toolFailed : EXIT.ok),
})

function printReloaded(
  { applied, needRestart, refused }: Awaited<ReturnType<RunningServer['readAgain']>>,
  output: Output,
): void {
  output.note(
    `Read the config again: ${applied.length === 0 ? 'nothing to change' : `changed ${applied.join(', ')}`}.`,
  )
  if (needRestart.length > 0) output.warn(`Needs a restart: ${needRestart.join(', ')}.`)
  for (const problem of refused) output.warn(`Refused, so the previous state stays in force: ${problem}`)
}

/** Lets a running server read its config again, and prints the result. */
export function configSource(
  read: () => Promise<Settings>,
  { output, workingFolder }: CommandContext,
): ConfigSource {
  return {
    read,
    onRead(outcome) {
      if (!(outcome instanceof Error)) {
        printReloaded(outcome, output)
        return
      }
      const problems =
        outcome instanceof ConfigError
          ? outcome.problems.map((problem) => problemText(problem, workingFolder))
          : [outcome.message]
      for (const problem of problems) output.error(problem)
      output.warn(
        isRefusal(outcome)
          ? 'The config was refused; the previous config stays in force.'
          : 'The config could not be applied; the previous config stays in force.',
      )
    },
  }
}

export const COMMANDS = [reload]
