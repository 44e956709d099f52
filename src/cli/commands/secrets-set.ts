import type { Arguments } from '#cli/arguments'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { actAtStore, askAsOperator, asksServer } from '#cli/operator-credential'
import { withStore } from '#cli/operator-store'
import { readHidden } from '#cli/read-hidden'
import { SECRETS_OPTIONS, type SecretsOption } from '#cli/secrets-options'
import { UsageError } from '#cli/usage-error'
import { isToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import { readSecretToSet, type SecretToSet } from '#server/admin/secrets'

type SetOption = 'principal' | 'user' | 'token' | 'scope' | 'tenant' | SecretsOption

export const secretsSet = defineCommand<SetOption>({
  name: 'secrets set',
  summary: 'Puts a secret or token into the vault; the value comes from stdin.',
  details: [
    'It is handed only to tools that declare NAME in their requirements, in calls of exactly this principal and user.',
    'A value that is there is replaced. Values never come out again, by no command.',
  ],
  positionals: [{ name: 'NAME', help: 'Id of the requirement: a secret, or with --token an authorization.' }],
  options: {
    principal: { value: 'P', required: true, help: 'Whose: key:<id>, or jwt:<issuer>#<sub>.' },
    user: { value: 'ID', help: 'For calls with this user id. Default: for calls without one.' },
    token: { help: 'NAME is an authorization, and the value its token.' },
    scope: { value: 'S', many: true, help: 'With --token: what the token may do.' },
    tenant: { value: 'T', help: 'Default: default.' },
    ...SECRETS_OPTIONS,
  },
  examples: [
    'collet secrets set TWILIO_API_KEY --principal key:alice < key.txt',
    'collet secrets set github --token --scope repo --principal key:alice --user u1',
  ],
  async run(args, context) {
    const body = readBody(args, await readHidden(context, 'Value'))
    const ref = !asksServer(args)
      ? await setInStore(body, args, context)
      : await setThroughServer(body, args, context)
    if (context.json) context.output.json({ ref })
    else context.output.data(ref)
    return EXIT.ok
  },
})

function readBody(args: Arguments<SetOption>, value: string): JsonObject {
  const [name = ''] = args.positionals
  const principal = args.text('principal')
  if (principal === undefined) throw new UsageError('Say whose it is: --principal key:<id>.')
  const isToken = args.flag('token')
  const scopes = args.texts('scope')
  if (scopes.length > 0 && !isToken) throw new UsageError('--scope goes only with --token.')
  const user = args.text('user')
  const tenant = args.text('tenant')
  return {
    name,
    principal,
    kind: isToken ? 'token' : 'secret',
    value,
    ...(scopes.length === 0 ? {} : { scopes: [...scopes] }),
    ...(user === undefined ? {} : { user_id: user }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}

async function setInStore(
  body: JsonObject,
  args: Arguments<SetOption>,
  context: CommandContext,
): Promise<string> {
  const wanted = checked(() => readSecretToSet(body, undefined))
  const { setCredential } = await import('#server/admin/secrets')
  return await withStore(args, context, (store) =>
    setCredential(store, wanted, { by: actAtStore(context), atMs: context.clock.nowMs() }),
  )
}

function checked(read: () => SecretToSet): SecretToSet {
  try {
    return read()
  } catch (error) {
    if (isToolError(error)) throw new UsageError(error.message)
    throw error
  }
}

async function setThroughServer(
  body: JsonObject,
  args: Arguments<SetOption>,
  context: CommandContext,
): Promise<string> {
  const { ref } = await askAsOperator({ method: 'POST', path: '/admin/secrets', body }, args, context)
  if (typeof ref === 'string') return ref
  throw new CommandFailure(
    EXIT.server,
    'The server gave no reference. Is it a Collet server of this version?',
  )
}
