import type { Arguments } from '#cli/arguments'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import {
  askServer,
  KEY_OPTIONS,
  type KeyOption,
  nameOf,
  onStore,
  printKey,
  shownOf,
  shownOfAnswer,
} from '#cli/key-commands'
import { asksServer } from '#cli/operator-credential'
import { readEnd } from '#cli/read-end'
import type { JsonObject } from '#core/json'

type CreateOption = KeyOption | 'tenant' | 'scope' | 'role' | 'tool' | 'label' | 'expires'

export const keysCreate = defineCommand<CreateOption>({
  name: 'keys create',
  summary: 'Makes a principal with its first API key, and shows the key once.',
  details: [
    'From the first key on every caller of the server needs a credential. No principal can be made twice, not even after it ended.',
    'Without --tool the key sees every tool that its scopes and roles open.',
  ],
  positionals: [{ name: 'PRINCIPAL', help: 'Whom the key belongs to; it acts as key:PRINCIPAL.' }],
  options: {
    scope: { value: 'S', many: true, help: 'A scope it holds, such as mail:read or mail:*.' },
    role: { value: 'R', many: true, help: 'A role of auth.roles it holds.' },
    tool: { value: 'NAME', many: true, help: 'Let it see only these tools, by any of their names.' },
    tenant: { value: 'T', help: 'Tenant it belongs to. Default: default.' },
    label: { value: 'TEXT', help: 'What it is for.' },
    expires: { value: 'WHEN', help: 'When it ends: 90d, or 2027-01-31T00:00:00Z. Default: never.' },
    ...KEY_OPTIONS,
  },
  examples: [
    'collet keys create ci --scope mail:read --expires 90d',
    'collet keys create alice --role viewer --tool openwop:Mail.Send --label "laptop"',
  ],
  async run(args, context) {
    const body = bodyOf(args, context.clock.nowMs())
    const shown = !asksServer(args)
      ? shownOf(await onStore(args, context, (desk, actor) => desk.create(body, actor)))
      : shownOfAnswer(await askServer({ method: 'POST', path: '/admin/keys', body }, args, context))
    printKey(shown, context)
    return EXIT.ok
  },
})

function bodyOf(args: Arguments<CreateOption>, nowMs: number): JsonObject {
  const tools = args.texts('tool')
  const tenant = args.text('tenant')
  const label = args.text('label')
  const expires = args.text('expires')
  return {
    principal: nameOf(args),
    scopes: [...args.texts('scope')],
    roles: [...args.texts('role')],
    ...(tools.length === 0 ? {} : { tools: [...tools] }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(label === undefined ? {} : { label }),
    ...(expires === undefined ? {} : { expires_at: readEnd('expires', expires, nowMs) }),
  }
}
