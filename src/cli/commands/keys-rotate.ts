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
import { readEnd, readSpanMs } from '#cli/read-end'
import type { JsonObject } from '#core/json'

type RotateOption = KeyOption | 'tenant' | 'old-ends' | 'label' | 'expires'

export const keysRotate = defineCommand<RotateOption>({
  name: 'keys rotate',
  summary: 'Gives a principal one more API key with the same rights, and shows it once.',
  details: ['The keys it has stay good, unless --old-ends says when they end.'],
  positionals: [{ name: 'PRINCIPAL', help: 'Whose key.' }],
  options: {
    'old-ends': { value: 'SPAN', help: 'End the other keys after this time, such as 24h; 0s = now.' },
    tenant: { value: 'T', help: 'Tenant of the principal. Default: default.' },
    label: { value: 'TEXT', help: 'What the new key is for.' },
    expires: { value: 'WHEN', help: 'When the new key ends: 90d, or 2027-01-31T00:00:00Z. Default: never.' },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys rotate ci --old-ends 24h'],
  async run(args, context) {
    const name = nameOf(args)
    const body = bodyOf(args, context.clock.nowMs())
    const path = `/admin/principals/${encodeURIComponent(name)}/keys`
    const shown = !asksServer(args)
      ? shownOf(await onStore(args, context, (desk, actor) => desk.rotate(name, body, actor)))
      : shownOfAnswer(await askServer({ method: 'POST', path, body }, args, context))
    printKey(shown, context)
    return EXIT.ok
  },
})

function bodyOf(args: Arguments<RotateOption>, nowMs: number): JsonObject {
  const tenant = args.text('tenant')
  const label = args.text('label')
  const expires = args.text('expires')
  const oldEnds = args.text('old-ends')
  return {
    ...(tenant === undefined ? {} : { tenant }),
    ...(label === undefined ? {} : { label }),
    ...(expires === undefined ? {} : { expires_at: readEnd('expires', expires, nowMs) }),
    ...(oldEnds === undefined ? {} : { old_ends_in_seconds: readSpanMs('old-ends', oldEnds) / 1_000 }),
  }
}
