import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { SourceKind, Tool } from '#kernel/tool/tool'

const ROOT_KEY = 'k-root'
const NARROW_KEY = 'k-narrow'
const OTHER_TENANT_KEY = 'k-other'
export const KEYS = { root: ROOT_KEY, narrow: NARROW_KEY, other: OTHER_TENANT_KEY } as const

/** In no descriptor, whatever an author writes into requirements (OWP-24). */
export const CANARY = 'canary-5f1c2a'

export const TWO_TENANTS: Settings['auth'] = {
  apiKeys: [
    { id: 'root', key: new Secret(ROOT_KEY), tenant: 'acme', scopes: ['*'] },
    { id: 'narrow', key: new Secret(NARROW_KEY), tenant: 'acme', scopes: [] },
    { id: 'other', key: new Secret(OTHER_TENANT_KEY), tenant: 'globex', scopes: ['mail:*'] },
  ],
  jwt: undefined,
}

const text = { type: 'string', description: 'A text.' } as const

function base(id: string) {
  return { id, description: `Does ${id}.`, input: {}, output: {}, run: () => 1 }
}

function fromSource(source: SourceKind, definition: object): readonly Tool[] {
  return requireTools([definition], { source, describeParameters: false })
}

/** Tools of every source, with every kind of policy, requirement and schema. */
export function openwopFixtures(): readonly Tool[] {
  const code = requireTools([
    {
      ...base('Mail.Send@1.0.0'),
      input: { type: 'object', properties: { to: text }, required: ['to'] },
      output: null,
      requirements: {
        authorization: [{ id: 'google', oauth2: { scopes: ['send'] }, client_secret: CANARY }],
        secrets: [{ id: 'SMTP', value: CANARY }],
        apiKey: CANARY,
      },
      policy: { scopes: ['mail:send'], egress: 'host-owned', approval: 'never', costHint: 'low' },
    },
    { ...base('Calculator.Add@1.0.0'), description: 'The old one.' },
    {
      ...base('Calculator.Add@1.10.0'),
      title: 'Add',
      description: 'The new one.',
      input: z.object({
        a: z.number().describe('First.'),
        b: z.union([z.number(), z.null()]).describe('Second, if any.'),
      }),
      output: z.number(),
      policy: { safetyTier: 'pure', replay: 'deterministic', egress: 'none', latencyHint: 'low' },
    },
    { ...base('Calculator.Add@1.9.0'), description: 'The middle one.' },
    { ...base('Gate.Open@1.0.0'), policy: { approval: 'always', replay: 'idempotent' } },
    { ...base('Who.Am@1.0.0'), requirements: { userId: 'claimed' }, policy: { safetyTier: 'read' } },
    { ...base('Odd.Name@1.0.0'), catalogId: 'openwop:odd/name%20x' },
    {
      ...base('Odd.Shape@1.0.0'),
      input: {
        type: 'object',
        properties: {},
        oneOf: [{ patternProperties: { '^x': {} } }, { required: ['y'] }],
      },
    },
  ])
  return [
    ...code,
    // Annotations of the upstream server do not change our policy (OWP-33).
    ...fromSource('mcp', { ...base('Fs.Read@1.0.0'), catalogId: 'mcp:fs.read' }),
    ...fromSource('connector', { ...base('Slack.Post@1.0.0'), catalogId: 'connector:slack.post' }),
    ...fromSource('workflow', { ...base('Daily.Report@1.0.0'), catalogId: 'workflow:daily-report' }),
    ...fromSource('host-extension', {
      ...base('Shell.Run@1.0.0'),
      catalogId: 'x-host-acme-shell',
      policy: { safetyTier: 'exec', approval: 'always', scopes: ['shell:run'] },
    }),
  ]
}

/** The tools visible to a caller with every scope, in order. */
export const ALL_IDS = [
  'connector:slack.post',
  'mcp:fs.read',
  'openwop:Calculator.Add',
  'openwop:Gate.Open',
  'openwop:Mail.Send',
  'openwop:Odd.Shape',
  'openwop:Who.Am',
  'openwop:odd/name%20x',
  'workflow:daily-report',
  'x-host-acme-shell',
]

export function idsOf(tools: readonly { readonly toolId: string }[]): string[] {
  return tools.map(({ toolId }) => toolId)
}

/** The published schema, as data. */
export function readToolDescriptorSchema(): Record<string, unknown> {
  const file = new URL('../../docs/internals/specs/data/tool-descriptor.schema.json', import.meta.url)
  return z.record(z.string(), z.unknown()).parse(JSON.parse(readFileSync(file, 'utf8')))
}

const ajv = new Ajv2020({ strict: false, allErrors: true })
const validate = ajv.compile(readToolDescriptorSchema())

/** Violations of the ToolDescriptor schema; empty for a valid value. */
export function descriptorFindings(value: unknown): readonly string[] {
  return validate(value) ? [] : [ajv.errorsText(validate.errors)]
}
