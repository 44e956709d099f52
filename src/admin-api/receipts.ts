/**
 * Operations on receipts: proofs of single calls that others can verify without a key of this server, and the keys that sign them. The
 * format of the files is in `src/receipts/format.ts`. Making a receipt is journaled.
 */
import { z } from 'zod'
import { CALL_FILTER } from './calls.ts'
import { operation, time } from './operation.ts'

const MAX_RECORDS = 1_000
const MAX_LINKS = 100
const MEDIA = ['application/jsonl'] as const

const LINKS = () => z.array(z.object({ writer: z.string().max(100), block: z.int().min(0) })).max(MAX_LINKS)

export const MAKE_RECEIPTS = operation({
  route: 'POST /admin/receipts',
  scope: 'audit:read',
  summary: 'Makes a signed receipt of one or more calls.',
  description:
    'The answer is a file with one JSON value in each line, which `collet verify` and the page `/console/verify` check. Each receipt is recorded in the journal before the first line is sent. A failed request ends with a broken connection, and its file lacks the signature.',
  body: () =>
    z.object({
      records: z.array(z.string().min(1).max(100)).min(1).max(MAX_RECORDS),
      contents: z
        .boolean()
        .default(false)
        .describe(
          'Also discloses the input and the outcome to everyone who gets the file. Needs the scope `calls:read`, and is recorded like viewing them.',
        ),
      linked_to: LINKS()
        .default([])
        .describe(
          'Blocks that the reader knows from an earlier file: the new file contains every block between them and its own, which proves that the journal was only extended.',
        ),
    }),
  media: MEDIA,
  errors: [404],
})

export const EXPORT_RECEIPTS = operation({
  route: 'GET /admin/export/receipts',
  scope: 'audit:read',
  summary: 'Exports signed receipts of calls, newest call first, as one file.',
  description:
    'The export is recorded in the journal with its filter. Calls that retention removed from the journal are left out.',
  query: CALL_FILTER,
  media: MEDIA,
})

const KEY = () =>
  z.object({
    id: z.string(),
    algorithm: z.literal('Ed25519'),
    public_key: z.string().describe('32 bytes, in base64url.'),
    created_at: time(),
    retired_at: time()
      .nullable()
      .describe('When another key replaced it. Receipts that it signed before stay valid.'),
  })

export const LIST_RECEIPT_KEYS = operation({
  route: 'GET /admin/receipts/keys',
  scope: 'audit:read',
  summary: 'Lists the keys that sign receipts, the newest first.',
  description: 'Everyone can read the same list at `/.well-known/collet-receipt-keys.json`.',
  answer: () => z.object({ keys: z.array(KEY()) }),
})

export const ROTATE_RECEIPT_KEY = operation({
  route: 'POST /admin/receipts/keys',
  serverScope: 'admin:keys',
  summary: 'Makes a new key, which signs receipts from now on.',
  body: () => z.object({}),
  answer: () => z.object({ keys: z.array(KEY()) }),
})
