import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { askServer, KEY_OPTIONS, type KeyOption, onStore } from '#cli/key-commands'
import { asksServer } from '#cli/operator-credential'
import { UsageError } from '#cli/usage-error'
import { DEFAULT_TENANT } from '#core/principal'

type RevokeOption = KeyOption | 'principal' | 'tenant'

export const keysRevoke = defineCommand<RevokeOption>({
  name: 'keys revoke',
  summary: 'Ends an API key, or a principal with all its keys; servers see it within a second.',
  details: ['A principal that was ended never comes back: its name cannot be used again.'],
  positionals: [{ name: 'KEY-ID', optional: true, help: 'The key, as collet keys list shows it.' }],
  options: {
    principal: { value: 'P', help: 'End this principal instead of one key.' },
    tenant: { value: 'T', help: 'Tenant of that principal. Default: default.' },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys revoke 5f0c9d2e4b1aa07c3e8d9f21', 'collet keys revoke --principal ci'],
  async run(args, context) {
    const [keyId] = args.positionals
    const name = args.text('principal')
    if ((keyId === undefined) === (name === undefined))
      throw new UsageError('Say one key by its id, or one principal with --principal.')
    const tenant = args.text('tenant') ?? DEFAULT_TENANT
    const path =
      name === undefined
        ? `/admin/keys/${encodeURIComponent(keyId ?? '')}`
        : `/admin/principals/${encodeURIComponent(name)}?${new URLSearchParams({ tenant })}`
    if (asksServer(args)) await askServer({ method: 'DELETE', path }, args, context)
    else
      await onStore(args, context, (desk, actor) =>
        name === undefined ? desk.revoke(keyId ?? '', actor) : desk.endPrincipal({ tenant, name }, actor),
      )
    if (context.json)
      context.output.json(
        name === undefined ? { keyId, revoked: true } : { tenant, principal: name, ended: true },
      )
    else
      context.output.data(
        name === undefined ? `${keyId} is revoked.` : `${name} is ended, with all its keys.`,
      )
    return EXIT.ok
  },
})
