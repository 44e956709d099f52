import { LIST_WEBHOOKS, TEST_WEBHOOKS, type Webhooks, type WebhookTrial } from '#admin-api/server'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, EXIT, UsageError } from '#cli/command'
import { type Columns, printRows } from '#cli/operator-command'
import { hasStore, loadProjectConfig, withStore } from '#cli/store-access'
import { adHocWebhook, guessFormat, toWebhooks, type Webhook } from '#config/webhooks'
import { defined } from '#kernel/base/json'
import { listWebhooks, openWebhookFetch, webhooksNamed } from '#server/webhooks/routes'
import { tryWebhook } from '#server/webhooks/samples'

/**
 * `collet webhooks` and `collet webhooks test`: webhooks of the config, their deliveries, and test messages.
 * Invariant: only the host of an address is printed, because the rest may be a secret.
 */

const SCOPE = 'admin:webhooks'
const COLUMNS: Columns<Webhooks['webhooks'][number]> = {
  WEBHOOK: ({ name }) => name,
  FORMAT: ({ format }) => format,
  TO: ({ to }) => to,
  EVENTS: ({ events }) => events.join(' '),
  DELIVERED: ({ delivered }) => delivered,
  LAST: ({ last_delivered_at: at }) => at,
  WAITING: ({ waiting }) => waiting,
  'GIVEN UP': ({ given_up: count }) => count,
  'LAST FAILURE': ({ last_failure: failure, last_failed_at: at }) => failure && `${failure} at ${at}`,
}
const NO_WEBHOOKS = 'There are no webhooks. Write some into the config: webhooks: [{ url, secret, events }]'

const webhooks = defineCommand<AdminOption>({
  name: 'webhooks',
  summary: 'Lists webhooks, their events, and recent deliveries.',
  details: [
    'Messages are counted for a week. WAITING messages are still to be delivered; GIVEN UP ones failed for a day, or were refused permanently (410).',
    'Only the host of an address is shown: the rest of a chat webhook is a secret.',
  ],
  options: adminOptions(SCOPE),
  examples: ['collet webhooks', 'collet webhooks --json'],
  async run(args, context) {
    const { webhooks: found, unclaimed } = await list(args, context)
    printRows(found, { columns: COLUMNS, empty: NO_WEBHOOKS, fitsTerminal: true }, context)
    if (unclaimed > 0)
      context.output.warn(
        `${unclaimed === 1 ? '1 message waits' : `${unclaimed} messages wait`} for webhooks that this config does not have. Messages are dropped after a week.`,
      )
  },
})

async function list(args: Arguments<AdminOption>, context: CommandContext): Promise<Webhooks> {
  if (isServerNamed(args)) return await new AdminClient(args, context).ask(LIST_WEBHOOKS)
  const { webhooks: known } = await readConfigured(args, context)
  if (!(await hasStore(args, context))) return listWebhooks(known, [])
  return await withStore(args, context, async ({ notices }) => listWebhooks(known, await notices.listeners()))
}

const test = defineCommand<AdminOption | 'format'>({
  name: 'webhooks test',
  summary: 'Sends test messages to webhooks and prints their answers.',
  details: [
    'Each webhook gets one sample of every event that it receives, in its format, marked as a test. Without a name all webhooks are tested.',
    'A URL that is not in the config gets one sample of everything, unsigned: to try an address before it is added to the config.',
    'The samples are sent from this machine; with --url the server sends them, and only to webhooks of its config.',
  ],
  positionals: [
    { name: 'NAME|URL', optional: true, help: 'The webhook, as collet webhooks shows it, or an address.' },
  ],
  options: {
    format: {
      value: 'F',
      help: 'For a URL that is not in the config: json, slack or teams. Default: guessed from the host of the URL.',
    },
    ...adminOptions(SCOPE),
  },
  examples: [
    'collet webhooks test',
    'collet webhooks test chat',
    'collet webhooks test https://ops.example/hook --format json',
  ],
  async run(args, context) {
    const { output, json } = context
    const results = await output.during('Sending samples', tryAll(args, context))
    if (json) output.json(results)
    else
      for (const { webhook, event, taken, answer } of results)
        output.data(
          `${output.style(taken ? 'green' : 'red', taken ? '✓' : '✗')} ${webhook} ${event}: ${answer}`,
        )
    return results.every(({ taken }) => taken) ? EXIT.ok : EXIT.toolFailed
  },
})

async function tryAll(
  args: Arguments<AdminOption | 'format'>,
  context: CommandContext,
): Promise<readonly WebhookTrial[]> {
  const [name] = args.positionals
  if (isServerNamed(args))
    return (await new AdminClient(args, context).ask(TEST_WEBHOOKS, { body: defined({ name }) })).results
  const { webhooks: known, egress, publicUrl } = await readConfigured(args, context)
  const selected = selectWebhooks(known, name, args.oneOf('format', FORMATS))
  const send = openWebhookFetch(selected, egress)
  try {
    const trial = { fetch: send, clock: context.clock, publicUrl: () => publicUrl }
    return (await Promise.all(selected.map((webhook) => tryWebhook(webhook, trial)))).flat()
  } finally {
    await send.close()
  }
}

function selectWebhooks(
  known: readonly Webhook[],
  name: string | undefined,
  format: Webhook['format'] | undefined,
): readonly Webhook[] {
  const isUrl = name !== undefined && /^https?:\/\//.test(name)
  if (isUrl && !known.some(({ url }) => url === name))
    return [adHocWebhook(name, format ?? guessFormat(name))]
  if (format !== undefined)
    throw new UsageError('--format is for a URL that is not in the config; a webhook has its own format.')
  return webhooksNamed(known, name)
}

const FORMATS = ['json', 'slack', 'teams'] as const satisfies readonly Webhook['format'][]

async function readConfigured(args: Arguments<AdminOption>, context: CommandContext) {
  const { config, file } = await loadProjectConfig(args.text('config'), context)
  const { host, port, publicUrl = `http://${host}:${port}` } = config.server
  return { webhooks: toWebhooks(config, file), egress: config.egress, publicUrl }
}

export const COMMANDS = [webhooks, test]
