/**
 * Operations that list, add, change, refresh, check and remove sources of imported tools. Their options are written as in the config;
 * answers show only options that cannot be secrets.
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
    since: time().describe('Time since which the source has been in its state, as far as this server knows.'),
    tools: z.int().describe('Number of tools that agents see.'),
    prompts: z.int().describe('Number of prompts that MCP clients see.'),
    templates: z.int().describe('Number of resource templates that MCP clients see.'),
    skills: z.int().describe('Number of skills that MCP clients see.'),
    offered: z.int().nullable().describe('Number of tools that the upstream offers.'),
    waiting: z.int().describe('Number of changed definitions that wait for a decision.'),
    read_at: time().nullable(),
    next_read_at: time().nullable(),
    warnings: texts(),
    tool_warnings: z.array(FINDING()).describe('Problems of tools that are served anyway.'),
    left_out: z.array(FINDING().extend({ fix: z.string() })).describe('Tools that are not served, and why.'),
    target: z
      .string()
      .nullish()
      .describe('The address or command of the source, without parts that may be secrets.'),
    configured: z
      .boolean()
      .optional()
      .describe('Whether the source is in the config and can only be changed there.'),
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
      .describe('How its tools are served.'),
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
      bypasses: z
        .array(
          z.object({
            client: z.string(),
            title: z.string(),
            file: z.string(),
            name: z.string(),
            source: z.string(),
            clear: texts().describe('Names of credentials that are in the file in clear text.'),
          }),
        )
        .describe(
          'Entries of MCP clients on this machine that reach one of these sources without this server. Empty if other machines can reach the server.',
        ),
    }),
})
export type SourceList = AnswerOf<typeof LIST_SOURCES>

export const ADD_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources',
  summary: 'Adds a source, which all servers of the store then serve.',
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
  summary: 'Finds which of these upstreams are already sources, and which keys are taken.',
  body: () => z.strictObject({ options: z.array(options()) }),
  answer: () =>
    z.object({
      found: z
        .array(z.array(z.object({ key: z.string(), changed: texts() })))
        .describe(
          'For each entry of `options`, the sources with this upstream, and the names of credentials whose values differ.',
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
  summary: 'Tries every step of reading a source, and reports which step fails.',
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
      advice: z.string().describe('What to do next.'),
    }),
})
export type CheckedSource = AnswerOf<typeof CHECK_SOURCE>

export const PROBE_SOURCE = operation({
  serverScope: 'admin:sources',
  route: 'POST /admin/sources/probe',
  summary:
    'Detects what a URL, a file or a command is, and which tools it has, before it is added. A command is started to find out.',
  description:
    'Events: `step` and `line` (of the program’s stderr) as they happen, then `found` or `failed`. Closing the connection stops the probe.',
  body: () =>
    z.strictObject({
      target: z
        .string()
        .trim()
        .min(1)
        .max(MAX_TARGET_LENGTH)
        .describe('A URL, a command or a file on the server.'),
      api_key: z.string().optional().describe('A key or token for the target.'),
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
    prompt_count: z.int(),
    template_count: z.int(),
    skill_count: z.int(),
    warnings: texts(),
  })
/** The event `found` of a probe: what the target turned out to be. */
export type ProbedSource = Shape<typeof PROBED>
