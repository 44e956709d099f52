import { createReadStream } from 'node:fs'
import { resolve } from 'node:path'
import { LIST_RECEIPT_KEYS, MAKE_RECEIPTS, ROTATE_RECEIPT_KEY } from '#admin-api/receipts'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand } from '#cli/command'
import { resolveId } from '#cli/id-prefix'
import { type Columns, listCommand } from '#cli/operator-command'
import { createCallRoutes } from '#server/admin/calls'
import { createReceiptRoutes } from '#server/audit/receipt-routes'
import { NO_SERVER, writeText } from './export.ts'
import { verifyReceiptFile } from './verify-file.ts'

/**
 * `collet journal receipt` and `collet journal keys`: signed proofs of calls for others, and the keys that sign them. `verify.ts` checks
 * the proofs. Invariant: an incomplete file is removed.
 */

const journalReceipt = defineCommand<'contents' | 'after' | 'out' | AdminOption>({
  name: 'journal receipt',
  summary: 'Makes a signed receipt of a call, which others can verify without a key of this server.',
  details: [
    'The receipt proves the call, its tool and definition, its caller, times, approvals, and digests of input and outcome. It reveals nothing about other calls. Verify it with collet verify, or on the page /console/verify of a server.',
    'The receipt contains the call id and the user id. Making it is recorded in the journal.',
    'For receipts of many calls, use collet export receipts.',
  ],
  positionals: [
    { name: 'RECORD', many: true, help: 'The record that collet calls shows, or its first characters.' },
  ],
  options: {
    contents: { help: 'Also disclose the input and the outcome to everyone who gets the file.' },
    after: {
      value: 'FILE',
      help: 'An earlier receipt file: the new one proves that the journal was only extended since.',
    },
    out: { value: 'FILE', help: 'Write to this file instead of stdout.' },
    ...adminOptions('audit:read, and calls:read for --contents'),
  },
  examples: [
    'collet journal receipt 4f1c --out receipt.jsonl',
    'collet journal receipt 4f1c --contents --out receipt.jsonl',
    'collet journal receipt 4f1c --after last-year.jsonl --out receipt.jsonl',
  ],
  async run(args, context) {
    const client = receiptClient(args, context)
    const records: string[] = []
    for (const typed of args.positionals) records.push(await resolveId('call', typed, client))
    const body = {
      records,
      contents: args.flag('contents'),
      linked_to: await knownBlocks(args.text('after'), context),
    }
    const stop = new AbortController()
    const endListening = context.onStop(() => stop.abort(new Error('stopped')))
    try {
      await writeText(args.text('out'), context, (onPiece) =>
        client.download(MAKE_RECEIPTS, { body }, stop.signal, onPiece),
      )
    } finally {
      endListening()
    }
  },
})

/** The newest block of each writer in an earlier file, whose signature is checked too. */
async function knownBlocks(name: string | undefined, { workingFolder }: CommandContext) {
  if (name === undefined) return []
  const { lines } = await verifyReceiptFile(createReadStream(resolve(workingFolder, name)))
  const newest = new Map(lines.blocks.map(({ writer, block }) => [writer, block]))
  return [...newest].map(([writer, block]) => ({ writer, block }))
}

const KEY_COLUMNS: Columns<{
  readonly id: string
  readonly public_key: string
  readonly created_at: string
  readonly retired_at: string | null
}> = {
  KEY: ({ id }) => id,
  'PUBLIC KEY': ({ public_key: key }) => key,
  SINCE: ({ created_at: at }) => at,
  UNTIL: ({ retired_at: at }) => at,
}

const keyList = {
  columns: KEY_COLUMNS,
  empty: 'No receipt has been made yet: the key is made with the first one.',
}

const journalKeys = listCommand({
  name: 'journal keys',
  summary: 'Lists the keys that sign receipts, the newest first.',
  details: [
    'Give one to those who verify receipts: collet verify --key. A server also publishes them at /.well-known/collet-receipt-keys.json.',
  ],
  options: adminOptions('audit:read'),
  examples: ['collet journal keys', 'collet journal keys --json > keys.json'],
  client: receiptClient,
  operation: LIST_RECEIPT_KEYS,
  rows: ({ keys }) => keys,
  ...keyList,
})

const journalKeysRotate = listCommand({
  name: 'journal keys rotate',
  summary: 'Makes a new key, which signs receipts from now on.',
  details: ['Receipts that earlier keys signed stay valid, and these keys stay listed.'],
  options: adminOptions('admin:keys'),
  examples: ['collet journal keys rotate'],
  client: receiptClient,
  operation: ROTATE_RECEIPT_KEY,
  request: () => ({ body: {} }),
  rows: ({ keys }) => keys,
  ...keyList,
})

function receiptClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  const { clock } = context
  return new AdminClient(args, context, {
    onStore: ({ store, access }) => [
      ...createCallRoutes(access, { calls: store, clock }),
      ...createReceiptRoutes(access, {
        ...{ store, clock, publicUrl: () => NO_SERVER },
        enter: () => () => undefined,
      }),
    ],
  })
}

export const COMMANDS = [journalReceipt, journalKeys, journalKeysRotate]
