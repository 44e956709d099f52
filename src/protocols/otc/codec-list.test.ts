import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import { decodeListRequest, encodeList, type ListShape } from './codec-list.ts'
import { ARCADE_SCHEMA_ID } from './wire.ts'

const OTC_URL = 'https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json'
const OXP_URL = 'https://github.com/OpenExecProtocol/Specification/tree/main/spec/http/1.0/openapi.json'

interface Asked {
  readonly headers?: Record<string, string>
  readonly body?: JsonValue
  readonly query?: string
}

function decode({ headers = {}, body, query = '' }: Asked = {}) {
  return decodeListRequest({ headers, body, query: new URLSearchParams(query) })
}

it('OTC-32: a parameter without a description is listed with its title or its name', () => {
  const properties = {
    a: { type: 'string', description: 'Said.' },
    b: { type: 'string', title: 'The letter' },
    id: { type: 'string' },
    any: true,
  }
  const tool = toolWith({ inputSchema: { type: 'object', properties } })
  const listed = (shape: ListShape) =>
    JSON.parse(encodeList({ shape, schemaId: 'otc://1.0' }, { tools: [tool], toolkits: new Map() }))
  const described = {
    a: { type: 'string', description: 'Said.' },
    b: { type: 'string', title: 'The letter', description: 'The letter' },
    id: { type: 'string', description: 'id' },
    any: { description: 'any' },
  }
  expect(listed('tools').tools[0].input_schema.parameters.properties).toEqual(described)
  expect(listed('header').items[0].input_schema.properties).toEqual(described)
  expect(listed('arcade').tools[0].input.parameters.properties).toEqual(described)
  expect(tool.inputSchema.properties).toEqual(properties)
})

it('OTC-30: the schema of a tool without parameters is listed as its author wrote it', () => {
  const listed = (input: JsonObject) => {
    const tools = requireTools([
      { id: 'System.GetTimestamp@1.0.0', description: 'Time.', input, output: null, run: () => undefined },
    ])
    const content = { tools, toolkits: new Map() }
    return JSON.parse(encodeList({ shape: 'tools', schemaId: 'otc://1.0' }, content)).tools[0].input_schema
  }
  for (const input of [{ type: 'object' }, { type: 'object', properties: {} }, {}])
    expect(listed(input)).toEqual({ parameters: input })
  const named = { type: 'object', properties: { a: { type: 'string', description: 'A.' } } }
  const referring = { $ref: '#/$defs/Named', $defs: { Named: named } }
  expect(listed(referring).parameters).toMatchObject(named)
})

describe('decodeListRequest', () => {
  it.each<[Asked, ListShape, string | undefined]>([
    [{}, 'tools', 'otc://1.0'],
    [{ body: {} }, 'tools', 'otc://1.0'],
    [{ body: { $schema: 'urn:oxp:1.0' } }, 'both', 'urn:oxp:1.0'],
    [{ body: { $schema: OXP_URL } }, 'both', OXP_URL],
    [{ body: { $schema: 'otc://1.0' } }, 'tools', 'otc://1.0'],
    [{ body: { $schema: OTC_URL } }, 'tools', OTC_URL],
    [{ query: 'schema=otc%3A%2F%2F1.0' }, 'tools', 'otc://1.0'],
    [{ query: '$schema=urn:oxp:1.0' }, 'both', 'urn:oxp:1.0'],
    [{ query: 'schema=otc://1.0', body: { $schema: 'otc://1.0' } }, 'tools', 'otc://1.0'],
    [{ body: { $schema: ARCADE_SCHEMA_ID } }, 'arcade', ARCADE_SCHEMA_ID],
    [{ headers: { 'oxp-version': '1.0' } }, 'header', undefined],
    [{ headers: { 'oxp-version': '1.0' }, body: { $schema: 'otc://1.0' } }, 'tools', 'otc://1.0'],
  ])('OTC-08, OTC/C-07, OTC/C-31: %j requests the shape %s', (asked, shape, schemaId) => {
    expect(decode(asked)).toEqual({ shape, schemaId })
  })

  it.each<[Asked, string]>([
    [{ body: { $schema: 'urn:oxp:9.0' } }, 'version_unsupported'],
    [{ query: 'schema=urn:oxp:9.0' }, 'version_unsupported'],
    [{ headers: { 'oxp-version': '9.0' } }, 'version_unsupported'],
    [{ headers: { 'oxp-version': '1.0' }, body: { $schema: 'urn:oxp:9.0' } }, 'version_unsupported'],
    [{ body: { $schema: 5 } }, 'request_invalid'],
    [{ body: [] }, 'request_invalid'],
    [{ body: null }, 'request_invalid'],
    [{ query: 'schema=otc://1.0', body: { $schema: 'urn:oxp:1.0' } }, 'request_invalid'],
  ])('OTC-16, OTC-18, OTC/C-17: %j is refused as %s', (asked, code) => {
    expect(() => decode(asked)).toThrow(expect.objectContaining({ code }))
  })
})

const policy: Tool['policy'] = {
  safetyTier: 'pure',
  replay: 'deterministic',
  approval: 'never',
  scopes: [],
  timeoutMs: 1,
  rerunWindowMs: 0,
}

function toolWith(parts: Partial<Tool>): Tool {
  return {
    id: 'Calculator.Add@1.0.0',
    parts: { base: 'Calculator.Add', toolkit: 'Calculator', name: 'Add', version: '1.0.0' },
    name: 'Calculator_Add',
    title: 'Add',
    catalogId: 'openwop:Calculator.Add',
    description: 'Adds.',
    source: 'node-pack',
    inputSchema: { type: 'object', properties: { a: { type: 'number', description: 'A' } }, required: ['a'] },
    outputSchema: { type: 'number', description: 'The sum.' },
    policy,
    definitionHash: 'h',
    checkInput: () => [],
    parseInput: (input) => ({ ok: true, input }),
    checkOutput: () => [],
    run: () => null,
    ...parts,
  }
}

function list(shape: ListShape, tool: Tool, toolkits = new Map([['Calculator', 'Calculations.']])) {
  const form = { shape, schemaId: shape === 'header' || shape === 'uts' ? undefined : 'otc://1.0' }
  return JSON.parse(encodeList(form, { tools: [tool], toolkits }))
}

const inputSchema: JsonObject = {
  type: 'object',
  properties: { a: { type: 'number', description: 'A' } },
  required: ['a'],
}
const six = {
  id: 'Calculator.Add@1.0.0',
  name: 'Calculator_Add',
  description: 'Adds.',
  version: '1.0.0',
  input_schema: inputSchema,
  output_schema: { type: 'number', description: 'The sum.' },
}
const wrapped = { ...six, input_schema: { parameters: inputSchema } }
const tool_facts = {
  [six.id]: {
    catalog_id: 'openwop:Calculator.Add',
    safety_tier: 'pure',
    replay_policy: 'deterministic',
  },
}

describe('encodeList', () => {
  it('OTC-06, OTC-31, OTC-33, OTC-41, OTC/C-09, OTC/C-13: each shape has its own definitions and no other members', () => {
    const tool = toolWith({})
    expect(list('header', tool)).toEqual({ items: [six], tool_facts })
    expect(list('items', tool)).toEqual({ $schema: 'otc://1.0', items: [six], tool_facts })
    expect(list('tools', tool)).toEqual({ $schema: 'otc://1.0', tools: [wrapped], tool_facts })
    expect(list('both', tool)).toEqual({
      ...{ $schema: 'otc://1.0', tools: [wrapped], items: [six], tool_facts },
    })
    expect(list('uts', tool)).toEqual([six])
  })

  it('OTC/C-11: the RFC form adds toolkit, input and output', () => {
    expect(list('arcade', toolWith({}))).toEqual({
      $schema: 'otc://1.0',
      tools: [
        {
          ...wrapped,
          toolkit: { name: 'Calculator', description: 'Calculations.', version: '1.0.0' },
          input: { parameters: inputSchema, required: ['a'] },
          output: {
            available_modes: ['value', 'error'],
            description: 'The sum.',
            value: { parameters: six.output_schema },
          },
        },
      ],
      tool_facts,
    })
    expect(
      list('arcade', toolWith({ outputSchema: null, inputSchema: {} }), new Map()).tools[0],
    ).toMatchObject({
      toolkit: { name: 'Calculator', description: 'Calculator tools.', version: '1.0.0' },
      input: { required: [] },
      output: { available_modes: ['null', 'error'] },
    })
  })

  it.each([[null], [{}], [{ type: 'string' }]])(
    'OTC-35, OTC/C-12: output_schema %j is listed unchanged',
    (outputSchema) => {
      for (const [shape, pointer] of [
        ['header', 'items'],
        ['tools', 'tools'],
      ] as const) {
        expect(list(shape, toolWith({ outputSchema }))[pointer][0].output_schema).toEqual(outputSchema)
      }
      expect(list('uts', toolWith({ outputSchema }))[0].output_schema).toEqual(outputSchema)
    },
  )

  it('OTC-30, OTC-31, OTC-33: the schema of a tool without parameters is {} in both forms', () => {
    const { tools, items } = list('both', toolWith({ inputSchema: {} }))
    expect([tools[0].input_schema, items[0].input_schema]).toEqual([{ parameters: {} }, {}])
  })

  it('OTC-37…41: requirements are listed as written, with user_id in wire spelling, and absent if there are none', () => {
    const requirements = {
      authorization: [{ id: 'google', oauth2: { scopes: ['s'], extra: 1 } }],
      secrets: [{ id: 'K', note: 'x' }],
      userId: true,
      region: 'eu',
    }
    const { userId, ...others } = requirements
    expect(list('header', toolWith({ requirements })).items[0].requirements).toEqual({
      ...others,
      user_id: userId,
    })
    expect(list('header', toolWith({ requirements: {} })).items[0]).not.toHaveProperty('requirements')
  })

  it('OTC-07: without tools the list is an empty array in every shape', () => {
    const empty = (shape: ListShape) =>
      JSON.parse(encodeList({ shape, schemaId: 's' }, { tools: [], toolkits: new Map() }))
    expect(empty('both')).toEqual({ $schema: 's', tools: [], items: [] })
    expect(empty('uts')).toEqual([])
    expect(empty('arcade')).toEqual({ $schema: 's', tools: [] })
  })
})
