import type { Arguments } from '#cli/arguments'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { loadProjectConfig } from '#cli/load-project'
import { actAtStore, askAsOperator, asksServer } from '#cli/operator-credential'
import { withStore } from '#cli/operator-store'
import { SECRETS_OPTIONS, type SecretsOption } from '#cli/secrets-options'
import { toOAuthSettings } from '#config/to-settings'
import { NO_BROKER, SILENT_LOGGER, type TokenBroker } from '#core/runtime'

export const secretsRemove = defineCommand<SecretsOption>({
  name: 'secrets rm',
  summary: 'Forgets a credential, and revokes a token at its provider if that is possible.',
  details: ['With --store alone no provider is known, so nothing is revoked there.'],
  positionals: [{ name: 'REF', help: 'The credential, as collet secrets list shows it.' }],
  options: SECRETS_OPTIONS,
  examples: ['collet secrets rm cred_m1Zb0kVtq2sXn4Rf8uYc3aLe'],
  async run(args, context) {
    const [ref = ''] = args.positionals
    const revoked = !asksServer(args)
      ? await removeInStore(ref, args, context)
      : await removeThroughServer(ref, args, context)
    if (context.json) context.output.json({ ref, revoked })
    else context.output.data(`${ref} is removed${revoked ? ', and revoked at its provider' : ''}.`)
    return EXIT.ok
  },
})

async function removeInStore(
  ref: string,
  args: Arguments<SecretsOption>,
  context: CommandContext,
): Promise<boolean> {
  const { removeCredential } = await import('#server/admin/secrets')
  const broker = await brokerOf(args, context)
  const removed = await withStore(args, context, (store) =>
    removeCredential(
      { store, broker },
      { ref, tenant: undefined, by: actAtStore(context), atMs: context.clock.nowMs() },
    ),
  )
  if (removed !== undefined) return removed.revoked
  throw new CommandFailure(
    EXIT.usage,
    'There is no credential with this reference. collet secrets list shows them.',
  )
}

async function brokerOf(args: Arguments<SecretsOption>, context: CommandContext): Promise<TokenBroker> {
  if (args.text('store') !== undefined && args.text('config') === undefined) return NO_BROKER
  const { config, file } = await loadProjectConfig(args.text('config'), context)
  const { createBroker } = await import('#server/services')
  const oauth = toOAuthSettings(config.oauth, [], file)
  const server = { ...config.server, publicUrl: config.server.publicUrl }
  return createBroker(
    { oauth, server },
    { fetch: context.services.fetch, clock: context.clock, log: SILENT_LOGGER },
  )
}

async function removeThroughServer(
  ref: string,
  args: Arguments<SecretsOption>,
  context: CommandContext,
): Promise<boolean> {
  const path = `/admin/secrets/${encodeURIComponent(ref)}`
  const { revoked } = await askAsOperator({ method: 'DELETE', path }, args, context)
  return revoked === true
}
