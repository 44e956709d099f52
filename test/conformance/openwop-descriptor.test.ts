import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type {
  Approval,
  Egress,
  Hint,
  ReplayPolicy,
  SafetyTier,
  SourceKind,
  ToolPolicy,
} from '#kernel/tool/tool'
import { toCompactDescriptor, toDescriptor } from '#protocols/openwop/codec-catalog'
import type { WireToolDescriptor } from '#protocols/openwop/wire'
import { sampleTool } from '../contracts/samples.ts'
import { descriptorFindings, openwopFixtures } from './openwop-fixtures.ts'

const IDS = {
  'node-pack': 'openwop:a.b',
  workflow: 'workflow:a.b',
  mcp: 'mcp:a.b',
  connector: 'connector:a.b',
  'host-extension': 'x-host-a-b',
} satisfies Record<SourceKind, string>
const SOURCES: readonly SourceKind[] = ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension']

function described(toolId: string): WireToolDescriptor {
  const tool = openwopFixtures().find(({ catalogId }) => catalogId === toolId)
  if (tool === undefined) throw new Error(`no fixture ${toolId}`)
  return toDescriptor(tool)
}

function descriptorOf(policy: Partial<ToolPolicy>, source: SourceKind = 'node-pack'): WireToolDescriptor {
  return toDescriptor(sampleTool('A.B@1.0.0', () => 1, { source, policy }))
}

const POLICIES = fc.record(
  {
    safetyTier: fc.constantFrom<SafetyTier[]>('pure', 'read', 'write'),
    replay: fc.constantFrom<ReplayPolicy[]>('deterministic', 'idempotent', 'non-deterministic'),
    egress: fc.constantFrom<Egress[]>('none', 'safe-fetch', 'host-mediated', 'host-owned'),
    approval: fc.constantFrom<Approval[]>('never', 'conditional', 'always'),
    scopes: fc.uniqueArray(fc.string(), { maxLength: 3 }),
    costHint: fc.constantFrom<Hint[]>('low', 'medium', 'high'),
    latencyHint: fc.constantFrom<Hint[]>('low', 'medium', 'high'),
  },
  { requiredKeys: [] },
)

describe('a descriptor', () => {
  it('OWP-30, OWP-39: matches the closed schema, with all optional members and with none', () => {
    expect(openwopFixtures().map(toDescriptor).flatMap(descriptorFindings)).toEqual([])
    fc.assert(
      fc.property(POLICIES, fc.constantFrom(...SOURCES), (policy, source) => {
        expect(descriptorFindings(descriptorOf(policy, source))).toEqual([])
      }),
    )
  })

  it('OWP-30: describes the tool', () => {
    expect(described('openwop:Calculator.Add')).toEqual({
      toolId: 'openwop:Calculator.Add',
      source: 'node-pack',
      description: 'The old one.',
      inputSchema: {},
      outputSchema: {},
      auth: { scopes: [], credentialRef: false },
      approval: 'never',
      replayPolicy: 'non-deterministic',
      safetyTier: 'write',
    })
    expect(described('openwop:Mail.Send')).toEqual({
      toolId: 'openwop:Mail.Send',
      source: 'node-pack',
      description: 'Does Mail.Send@1.0.0.',
      inputSchema: {
        type: 'object',
        properties: { to: { type: 'string', description: 'A text.' } },
        required: ['to'],
      },
      auth: { scopes: ['mail:send'], credentialRef: true },
      egress: 'host-owned',
      approval: 'never',
      replayPolicy: 'non-deterministic',
      safetyTier: 'write',
      costHint: 'low',
    })
  })

  it('OWP-31: only host extensions have the tier exec', () => {
    expect(described('x-host-acme-shell')).toMatchObject({ source: 'host-extension', safetyTier: 'exec' })
    for (const source of SOURCES) {
      const prepared = prepareTool(
        {
          id: 'A.B@1.0.0',
          catalogId: IDS[source],
          description: 'x',
          input: {},
          output: {},
          policy: { safetyTier: 'exec' },
          run: () => 1,
        },
        { source },
      )
      expect([source, prepared.tool !== undefined]).toEqual([source, source === 'host-extension'])
      expect(descriptorFindings(descriptorOf({ safetyTier: 'exec' }, source)).length).toBe(
        source === 'host-extension' ? 0 : 1,
      )
    }
  })

  it('OWP-32: has the tier of the policy, whatever the source, approval and scopes', () => {
    fc.assert(
      fc.property(POLICIES, fc.constantFrom(...SOURCES), (policy, source) => {
        const descriptor = descriptorOf(policy, source)
        expect(descriptor.safetyTier).toBe(policy.safetyTier ?? 'write')
        expect(descriptor.replayPolicy).toBe(policy.replay ?? 'non-deterministic')
      }),
    )
  })

  it('OWP-33: an unclassified MCP tool is write, and repeats no annotation of its server', () => {
    expect(described('mcp:fs.read')).toMatchObject({
      safetyTier: 'write',
      replayPolicy: 'non-deterministic',
      source: 'mcp',
    })
    expect(described('mcp:fs.read')).not.toHaveProperty('egress')
  })

  it('OWP-34: needs a credential if it requires authorization or secrets, not for a user id', () => {
    const needing = (requirements: object) =>
      toDescriptor(sampleTool('A.B@1.0.0', () => 1, { requirements: { ...requirements } })).auth.credentialRef
    expect(needing({ authorization: [{ id: 'google' }] })).toBe(true)
    expect(needing({ secrets: [{ id: 'KEY' }] })).toBe(true)
    expect(needing({ authorization: [], secrets: [] })).toBe(false)
    expect(needing({ userId: true })).toBe(false)
    expect(needing({})).toBe(false)
  })

  it('OWP-37: has the egress that the author declared, and none otherwise', () => {
    expect(descriptorOf({})).not.toHaveProperty('egress')
    expect(descriptorOf({ egress: 'none' }).egress).toBe('none')
  })

  it('OWP-38: publishes schemas unchanged', () => {
    const tierOne = {
      type: 'object',
      properties: { a: { type: ['string', 'null'], description: 'x' } },
      required: ['a'],
      additionalProperties: false,
    }
    const tool = sampleTool('A.B@1.0.0', () => 1, { inputSchema: tierOne })
    expect(toDescriptor(tool).inputSchema).toEqual(tierOne)
    expect(toCompactDescriptor(tool).inputSchema).toEqual(tierOne)
  })

  it('OWP-39: carries hints and no annotations', () => {
    const descriptor = descriptorOf({ costHint: 'high', latencyHint: 'medium' })
    expect(descriptor).toMatchObject({ costHint: 'high', latencyHint: 'medium' })
    expect(descriptor).not.toHaveProperty('annotations')
  })
})

describe('a compact descriptor', () => {
  const describedAs = (description: string) =>
    toCompactDescriptor(sampleTool('A.B@1.0.0', () => 1, { description })).description

  it('OWP-25: shortens long texts between words, and never cuts a character', () => {
    expect(describedAs('Short.')).toBe('Short.')
    expect(describedAs('word '.repeat(60))).toBe(`${'word '.repeat(51).trim()}…`)
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 600 }), (description) => {
        const shown = describedAs(description)
        expect(shown.length).toBeLessThanOrEqual(256)
        expect(shown.isWellFormed()).toBe(true)
      }),
    )
  })
})
