import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { checkToolDefinition } from './otc-definition.ts'

interface DefineVector {
  readonly id: string
  readonly desc: string
  readonly kind: string
  readonly def: Record<string, unknown>
  readonly expect: 'accept' | 'reject'
}

const vectors = readFileSync('vectors/otc.jsonl', 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line): DefineVector => JSON.parse(line))
  .filter(({ kind }) => kind === 'define')

const GOOD = {
  id: 'A.B@1.0.0',
  name: 'A_B',
  description: 'd',
  version: '1.0.0',
  input_schema: { type: 'object', properties: { p: { type: 'string', description: 'p' } } },
  output_schema: {},
}

function reportedPaths(changes: Record<string, unknown>): string[] {
  return checkToolDefinition(JSON.parse(JSON.stringify({ ...GOOD, ...changes }))).map(({ where }) => where)
}

describe('checkToolDefinition', () => {
  it.each(vectors.map((vector) => [vector.id, vector.desc, vector] as const))('%s: %s', (_, __, vector) => {
    const findings = checkToolDefinition(vector.def)
    expect(findings.length === 0 ? 'accept' : 'reject', JSON.stringify(findings)).toBe(vector.expect)
  })

  it('reads vectors', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(14)
  })

  it('OTC-23, OTC-25…28, OTC-30, C-13: every member but `requirements` is required', () => {
    for (const key of Object.keys(GOOD)) expect(reportedPaths({ [key]: undefined })).toEqual([key])
    expect(reportedPaths({ id: 'A.B' })).toEqual(['id'])
    expect(reportedPaths({ id: 'A.B@1' })).toEqual(['id'])
  })

  it('OTC-31, OTC-33, C-09: accepts both forms of the input schema', () => {
    const schema = {
      type: 'object',
      properties: { parameters: { type: 'string', description: 'A parameter of that name.' } },
    }
    expect(reportedPaths({ input_schema: schema })).toEqual([])
    expect(reportedPaths({ input_schema: { parameters: schema } })).toEqual([])
    expect(reportedPaths({ input_schema: {} })).toEqual([])
    expect(reportedPaths({ input_schema: { parameters: [] } })).toEqual(['input_schema/parameters'])
    expect(
      reportedPaths({ input_schema: { parameters: { type: 'object', properties: { q: {} } } } }),
    ).toEqual(['input_schema/parameters/properties/q'])
    expect(reportedPaths({ input_schema: true })).toEqual(['input_schema'])
  })

  it('OTC-35: an output schema is a schema, `{}` or null', () => {
    for (const output_schema of [{}, null, { type: 'number' }])
      expect(reportedPaths({ output_schema })).toEqual([])
    for (const output_schema of [true, 'x', []])
      expect(reportedPaths({ output_schema })).toEqual(['output_schema'])
    expect(reportedPaths({ output_schema: { type: 'x' } })).toEqual(['output_schema/type'])
  })

  it('OTC-34, OTC-36: refuses references and definitions in both schemas', () => {
    expect(reportedPaths({ output_schema: { $ref: '#/$defs/x', $defs: { x: {} } } })).toEqual([
      'output_schema/$ref',
      'output_schema/$defs',
    ])
    expect(reportedPaths({ input_schema: { parameters: { type: 'object', definitions: {} } } })).toEqual([
      'input_schema/parameters/definitions',
    ])
  })

  it('OTC-39, OTC-40, OTC-41: closed definition, open requirements', () => {
    expect(reportedPaths({ toolkit: {} })).toEqual(['toolkit'])
    expect(reportedPaths({ requirements: { user_id: true, userId: 'an unknown member' } })).toEqual([])
    expect(reportedPaths({ requirements: { user_id: 1, secrets: [{}] } })).toEqual([
      'requirements/user_id',
      'requirements/secrets/0/id',
    ])
  })

  it('refuses a value that is not an object', () => {
    for (const json of [null, [], 'x', undefined]) {
      expect(checkToolDefinition(json)).toMatchObject([{ where: 'definition' }])
    }
  })
})
