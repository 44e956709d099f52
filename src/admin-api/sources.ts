/**
 * Operations on sources of imported tools: added, changed, read again, checked and removed. Their options are those of the config,
 * with its spelling; answers show only what cannot be a secret.
 */
import { z } from 'zod'
import { type AnswerOf, json, named, operation, type Shape, texts, time } from './operation.ts'
import { APPROVAL, TIER } from './tools.ts'

const MAX_TARGET_LENGTH = 8_192

const FINDING = () => z.object({ tool: z.string(), problem: z.string() })

const SOURCE = named('AdminSource', () =>
  z.object({
    key: z.string(),
    type: z.string(),
    kind: z.string(),
    state: z.enum(['starting', 'ready', 'degraded', 'down']),
    reason: z.string().nullable(),
    since: time().describe('Since when it is in its state, as far as this server saw it.'),
    tools: z.int().describe('Tools that agents see.'),
    offered: z.int().nullable().describe('Tools of the upstream.'),
    waiting: z.int().describe('Changed definitions that wait for a decision.'),
    read_at: time().nullable(),
    next_read_at: time().nullable(),
    warnings: texts(),
    oddities: z.array(FINDING()).describe('What is odd about tools that are served all the same.'),
    left_out: z.array(FINDING().extend({ fix: z.string() })).describe('Tools that are not served, and why.'),
    target: z.string().nullish().describe('Where it is, without what may be a secret.'),
    configured: z.boolean().optional().describe('It is in the config, which has to be changed to change it.'),
    settings: z
      .object({
        trust: z.enum(['nothing', 'annotations']).optional(),
        connect_timeout_ms: z.int().optional(),
        include: texts().nullable(),
        exclude: texts(),
        approval: APPROVAL().nullable(),
        tier: TIER().nullable(),
      })
      .optional()
      .describe('What is done with its tools.'),
  }),
)
export type Source = Shape<typeof SOURCE>

const options = () => z.record(z.string(), json())

export const LIST_SOURCES = operation({
  serverScope: 'admin:sources',
  route: 'GET /admin/sources',
  summary: 'Sources with their state.',
  answer: () =>
    z.object({
      sources: z.array(SOURCE()),
      around: z
        .array(
          z.object({
            client: z.string(),
            title: z.string(),
            file: z.string(),
            name: z.string(),
            source: z.string(),
            clear: texts().describe('Names of credentials that stand in the file in clear text.'),
          }),
        )
        .describe(
          'Entries of MCP clients on this machine that reach one of these sources without this server. Empty where the server is not for this machine alone.',
        ),
    }),
})
export type SourceList = AnswerOf<typeof LIST_SOURCES>

export const ADD_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources',
  summary: 'Adds a source; all servers of the store take it up.',
  body: () =>
    z.strictObject({
      key: z.string().regex(/^[A-Za-z0-9_]{1,64}$/, { error: 'expected 1 to 64 letters, digits and "_".' }),
      options: options().describe('As in `sources` of a config.'),
      replace: z.boolean().default(false),
    }),
  status: 201,
  answer: () => z.object({ source: SOURCE().nullable() }),
})

export const FIND_SOURCES = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/find',
  summary: 'Which of these upstreams are sources already, and which keys are taken.',
  body: () => z.strictObject({ options: z.array(options()) }),
  answer: () =>
    z.object({
      found: z
        .array(z.array(z.object({ key: z.string(), changed: texts() })))
        .describe(
          'For each of the options, the sources that have this upstream, and the names of credentials whose values differ.',
        ),
      taken: texts(),
    }),
})

export const CHANGE_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/:key/set',
  summary: 'Changes settings or credentials of an imported source.',
  body: () =>
    z.strictObject({
      changes: options().describe('Objects are changed member by member; null removes a member.'),
    }),
  answer: () => z.object({ key: z.string(), source: SOURCE().nullable(), warnings: texts() }),
})

export const REMOVE_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'DELETE /admin/sources/:key',
  summary: 'Removes an imported source.',
  answer: () => z.object({ key: z.string(), removed: z.boolean() }),
})

export const REFRESH_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/:key/refresh',
  summary: 'Reads the tools of a source again now.',
  answer: () => z.object({ source: SOURCE().nullable() }),
})

export const CHECK_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/:key/check',
  summary: 'Takes every step to a source and reports which one fails.',
  answer: () =>
    z.object({
      key: z.string(),
      ok: z.boolean(),
      steps: z.array(
        z.object({
          step: z.enum(['resolve', 'connect', 'tls', 'program', 'file', 'handshake', 'list', 'definitions']),
          state: z.enum(['done', 'failed', 'not_reached']),
          says: z.string(),
          took_ms: z.number().nullable(),
        }),
      ),
      advice: z.string().describe('What to do, in words.'),
    }),
})
export type CheckedSource = AnswerOf<typeof CHECK_SOURCE>

export const PROBE_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/probe',
  summary:
    'Says what a URL, a file or a command is, and which tools it has, before it is added. A command is started for it.',
  description:
    'Events: `step` and `line` (of the program’s stderr) as they come, then `found` or `failed`. Closing the connection stops it.',
  body: () =>
    z.strictObject({
      target: z
        .string()
        .trim()
        .min(1)
        .max(MAX_TARGET_LENGTH)
        .describe('A URL, a command or a file on the server.'),
      api_key: z.string().optional().describe('A key or token for it.'),
    }),
})

const PROBED = () =>
  z.object({
    key: z.string(),
    type: z.string(),
    what: z.string(),
    options: z.record(z.string(), z.unknown()),
    tools: z.array(
      z.object({
        name: z.string(),
        description: z.string(),
        read_only: z.boolean(),
        idempotent: z.boolean(),
      }),
    ),
    tool_count: z.int(),
    warnings: texts(),
  })
/** The event `found` of a probe: what the target turned out to be. */
export type ProbedSource = Shape<typeof PROBED>
