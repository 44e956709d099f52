/**
 * Operations on pinned definitions of imported tools, and on changes to these definitions that wait for an operator. Operations
 * on tools and approvals use the differences too.
 */
import { z } from 'zod'
import { named, operation, type Shape, texts, time } from './operation.ts'

export const CHANGE_CLASS = () => z.enum(['wording', 'widening', 'breaking', 'suspicious'])
export const CHANGE_KIND = () => z.enum(['addition', 'change', 'removal'])

/** One difference between two definitions of a tool. */
export const DIFFERENCE = named('AdminDifference', () =>
  z.object({
    where: z.string().describe('The member of the definition, with a JSON Pointer into it.'),
    class: CHANGE_CLASS(),
    says: z.string(),
    before: z.unknown().optional(),
    after: z.unknown().optional(),
  }),
)
export type Difference = Shape<typeof DIFFERENCE>

const pinned = () =>
  z.object({
    source: z.string(),
    tool: z.string(),
    native_name: z.string(),
    state: z.enum(['served', 'suspended', 'held', 'removed']),
    version: z.string().nullable(),
    hash: z.string().nullable(),
    accepted_by: z.string().nullable(),
    accepted_at: time().nullable(),
    waiting: z
      .object({
        kind: CHANGE_KIND(),
        class: CHANGE_CLASS(),
        reasons: texts(),
        hash: z.string(),
        renamed_from: z.string().nullable(),
        seen_at: time(),
        rejected_by: z.string().nullable(),
      })
      .nullable()
      .describe('The change that waits for a decision.'),
  })

const PIN = named('AdminPin', pinned)
export type Pin = Shape<typeof PIN>

export const PIN_DIFF = named('AdminPinDiff', () =>
  pinned().extend({
    next_version: z
      .string()
      .nullable()
      .describe('Version after acceptance. Null: the tool would be removed.'),
    differences: z.array(DIFFERENCE()),
  }),
)
/** A pinned tool, and the effect of accepting its change. */
export type PinDiff = Shape<typeof PIN_DIFF>

export const LIST_PINS = operation({
  route: 'GET /admin/pins',
  serverScope: 'admin:pins',
  summary: 'Pinned definitions of imported tools.',
  query: () => z.object({ source: z.string().optional(), waiting: z.enum(['true', 'false']).optional() }),
  answer: () => z.object({ pins: z.array(PIN()) }),
})

export const SHOW_PIN = operation({
  route: 'GET /admin/pins/:tool',
  serverScope: 'admin:pins',
  summary: 'The effect of accepting the waiting change of a tool.',
  answer: PIN_DIFF,
  errors: [404],
})

export const ACCEPT_PINS = operation({
  route: 'POST /admin/pins/accept',
  serverScope: 'admin:pins',
  summary: 'Accepts all waiting changes of a source.',
  body: () =>
    z.strictObject({
      source: z.string(),
      suspicious: z.boolean().default(false).describe('Accepts suspicious changes too.'),
      hashes: z
        .record(z.string(), z.string())
        .optional()
        .describe('Hashes of the reviewed changes, by tool. If one differs, nothing is accepted.'),
    }),
  answer: () => z.object({ accepted: texts() }),
})

const decide = (verb: 'accept' | 'reject', summary: string) =>
  operation({
    route: `POST /admin/pins/:tool/${verb}`,
    serverScope: 'admin:pins',
    summary,
    body: () =>
      z
        .strictObject({
          hash: z
            .string()
            .optional()
            .describe('Hash of the reviewed change. If another change waits, nothing is decided.'),
        })
        .prefault({}),
    answer: PIN_DIFF,
    errors: [404],
  })

export const ACCEPT_PIN = decide('accept', 'Accepts the waiting change of a tool.')
export const REJECT_PIN = decide('reject', 'Rejects the waiting change of a tool.')
