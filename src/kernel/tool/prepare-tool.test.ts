import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ADD, findingsOf, prepared } from '../../../test/samples/definitions.ts'
import { tool } from './define.ts'
import { prepareTool } from './prepare-tool.ts'
import type { Tool } from './tool.ts'

describe('prepareTool', () => {
  it('fills in every default', () => {
    const add = prepared(ADD)
    expect(add).toMatchObject({
      id: 'Calculator.Add@1.0.0',
      parts: { base: 'Calculator.Add', toolkit: 'Calculator', name: 'Add', version: '1.0.0' },
      name: 'Calculator_Add',
      catalogId: 'openwop:Calculator.Add',
      source: 'node-pack',
      inputSchema: ADD.input,
      outputSchema: ADD.output,
      policy: {
        safetyTier: 'write',
        replay: 'non-deterministic',
        approval: 'never',
        scopes: [],
        timeoutMs: 60_000,
        rerunWindowMs: 3_600_000,
      },
    })
    expect(add.policy).not.toHaveProperty('egress')
    expect(add).not.toHaveProperty('requirements')
    expect(Object.isFrozen(add) && Object.isFrozen(add.policy) && Object.isFrozen(add.inputSchema)).toBe(true)
    expect(prepared(ADD, { defaultTimeoutMs: 5 }).policy.timeoutMs).toBe(5)
  })

  it('keeps every member that an author sets', () => {
    const policy = {
      safetyTier: 'read',
      replay: 'idempotent',
      egress: 'safe-fetch',
      approval: 'always',
      scopes: ['mail:read', 'mail:read'],
      timeoutMs: 10,
      rerunWindowMs: 0,
      costHint: 'low',
      latencyHint: 'high',
    }
    const full = prepared({
      ...ADD,
      name: 'add-2',
      title: 'Add',
      catalogId: 'openwop:x.y',
      version: '1.0.0',
      policy,
    })
    expect(full).toMatchObject({ name: 'add-2', title: 'Add', catalogId: 'openwop:x.y' })
    expect(full.policy).toEqual({ ...policy, scopes: ['mail:read'] })
  })

  it('returns all findings at once, with the file and the fix', () => {
    const result = prepareTool(
      {
        id: 'Add',
        nmae: 'x',
        input: { type: 'object', properties: { a: {} } },
        output: 3,
        policy: { replay: 'maybe' },
        run: 1,
      },
      { file: 'tools/add.ts' },
    )
    expect(result.tool === undefined && result.findings.map(({ where }) => where).sort()).toEqual([
      'description',
      'id',
      'input/properties/a',
      'nmae',
      'output',
      'policy/replay',
      'run',
    ])
    expect(
      result.tool === undefined &&
        result.findings.every(({ file, toolId }) => file === 'tools/add.ts' && toolId === 'Add'),
    ).toBe(true)
  })

  it('refuses values that are not definitions', () => {
    for (const value of [undefined, null, 1, 'x', [], () => 1]) {
      const result = prepareTool(value)
      expect(result.tool === undefined && result.findings).toMatchObject([
        { toolId: '(no id)', where: 'tool' },
      ])
    }
  })

  it('OTC-41: refuses unknown members, and suggests the name that was meant', () => {
    expect(findingsOf({ desciption: 'x' })).toEqual([
      'desciption: "desciption" is not a known member. Did you mean "description"?',
    ])
    expect(findingsOf({ policy: { safteyTier: 'read' } })).toEqual([
      'policy/safteyTier: "safteyTier" is not a known member. Did you mean "safetyTier"?',
    ])
  })
})

describe('schemas', () => {
  it('OTC-30, OTC-35: both are required; `{}` and `null` are listed unchanged', () => {
    expect(findingsOf({ input: undefined, output: undefined })).toEqual([
      'input: Is missing.',
      'output: Is missing.',
    ])
    expect(prepared({ ...ADD, input: {}, output: {} })).toMatchObject({ inputSchema: {}, outputSchema: {} })
    expect(prepared({ ...ADD, output: null }).outputSchema).toBeNull()
  })

  it('OTC-33: an input is an object of parameters', () => {
    for (const input of [
      { type: 'string' },
      { type: ['object', 'null'] },
      { description: 'x' },
      z.string(),
      z.array(z.string()),
    ]) {
      expect(findingsOf({ input })).toEqual([
        expect.stringContaining('input: An input is an object of named parameters'),
      ])
    }
    expect(findingsOf({ input: z.object({}) })).toEqual([])
  })

  it('OTC-32, C-10: every parameter needs a description; nested members do not', () => {
    const nested = { type: 'object', properties: { b: { type: 'string' } } }
    const input = {
      type: 'object',
      properties: { a: nested, 'x/y': true, ok: { ...nested, description: 'Fine.' } },
    }
    expect(findingsOf({ input })).toEqual([
      'input/properties/a: The parameter "a" has no description.',
      'input/properties/x~1y: The parameter "x/y" has no description.',
    ])
    expect(findingsOf({ input }, { describeParameters: false })).toEqual([])
    expect(findingsOf({ input: z.object({ a: z.string().describe(' ') }) })).toHaveLength(1)
  })

  it('OTC-34, OTC-36: publishes schemas without references', () => {
    const Point = z.object({ x: z.number() }).meta({ id: 'Point' })
    const both = prepared({
      ...ADD,
      input: z.object({ from: Point.describe('From.'), to: Point.describe('To.') }),
      output: Point,
    })
    expect(JSON.stringify([both.inputSchema, both.outputSchema])).not.toMatch(/\$ref|\$defs|\$schema/)
    expect(both.inputSchema).toMatchObject({ properties: { to: { type: 'object', description: 'To.' } } })
  })

  it('refuses recursion, however the schema was made', () => {
    const Node = z.object({
      get next() {
        return Node.optional()
      },
    })
    type Tree = { readonly kids?: readonly Tree[] | undefined }
    const tree: v.GenericSchema<Tree> = v.object({ kids: v.optional(v.array(v.lazy(() => tree))) })
    for (const output of [
      Node,
      toStandardJsonSchema(tree),
      type({ 'next?': 'this' }),
      { items: { $ref: '#' } },
    ]) {
      expect(findingsOf({ output })).toEqual([expect.stringContaining('The schema contains itself')])
    }
  })

  it('OTC-32: refuses invalid JSON Schema at load', () => {
    expect(findingsOf({ output: { type: 'strin' } })).toEqual([
      expect.stringMatching(/^output\/type: Must be one of/),
    ])
    expect(findingsOf({ output: { pattern: '(' } })).toEqual([expect.stringMatching(/^output\/pattern: /)])
  })
})

describe('a prepared tool', () => {
  const runOf = (one: Tool, input: unknown): unknown => Reflect.apply(one.run, undefined, [input])

  it('OTC-80, T-18: checks the wire input without changing it', () => {
    const add = prepared(ADD)
    expect(add.checkInput({ a: 1, b: 2, more: 3 })).toEqual([])
    expect(add.checkInput({ a: 1, b: 2 })).toBe(add.checkInput({ a: 3, b: 4 }))
    expect(add.checkInput({ a: '1' })).toEqual([
      { parameter: 'b', pointer: '/b', message: 'Is required' },
      { parameter: 'a', pointer: '/a', message: 'Must be a number' },
    ])
  })

  it('T-13: an input that is not an object is invalid as a whole, even without parameters', () => {
    for (const input of [null, 1, 'x', [], true]) {
      expect(prepared({ ...ADD, input: {} }).checkInput(input)).toEqual([
        { pointer: '', message: 'Must be an object' },
      ])
    }
  })

  it('passes a plain input to `run` unchanged', async () => {
    const input = { a: 1, b: 2 }
    const parsed = await prepared(ADD).parseInput(input)
    expect(parsed.ok && parsed.input).toBe(input)
    expect(runOf(prepared(ADD), input)).toBe(3)
  })

  it('passes the input that the library parsed to `run`, or returns its issues', async () => {
    const input = z.object({
      when: z.iso
        .datetime()
        .transform((text) => new Date(text))
        .describe('When.'),
      n: z.int().default(7).describe('N.'),
    })
    const sync = prepared({ ...ADD, input })
    expect(sync.checkInput({ when: '2026-01-01T00:00:00Z' })).toEqual([])
    expect(sync.parseInput({ when: '2026-01-01T00:00:00Z' })).toEqual({
      ok: true,
      input: { when: new Date('2026-01-01T00:00:00Z'), n: 7 },
    })
    const slow = z.object({
      a: z
        .string()
        .refine(async (text) => text === 'yes', 'Say yes')
        .describe('A.'),
    })
    const parse = prepared({ ...ADD, input: slow }).parseInput({ a: 'no' })
    expect(parse).toBeInstanceOf(Promise)
    expect(await parse).toEqual({
      ok: false,
      issues: [{ parameter: 'a', pointer: '/a', message: 'Say yes' }],
    })
  })

  it('T-14, OTC-90: checks outputs, except for `{}` and `null`', () => {
    expect(prepared(ADD).checkOutput('3')).toEqual(['value: Must be a number'])
    expect(
      prepared({ ...ADD, output: { properties: { a: { type: 'null' } } } }).checkOutput({ a: 1 }),
    ).toEqual(['/a: Must be null'])
    expect(prepared({ ...ADD, output: {} }).checkOutput('any')).toEqual([])
    expect(prepared({ ...ADD, output: null }).checkOutput('dropped')).toEqual([])
    expect(prepared(ADD).checkOutput(1)).toBe(prepared(ADD).checkOutput(2))
  })

  it('is made from the result of `tool()`, with the definition as `this`', () => {
    const defined = tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: {},
      output: {},
      run() {
        return this.id
      },
    })
    expect(runOf(prepared(defined), {})).toBe('A.B@1.0.0')
  })

  it('publishes every object schema with `properties`, because some models refuse others', () => {
    for (const onWarning of [undefined, () => undefined]) {
      const definition = { id: 'A.B@1.0.0', description: 'd', output: null, run: () => undefined }
      const prepared = prepareTool(
        { ...definition, input: { type: 'object', additionalProperties: false } },
        onWarning === undefined ? {} : { onWarning },
      )
      expect(prepared.tool?.inputSchema).toEqual({
        type: 'object',
        properties: {},
        additionalProperties: false,
      })
    }
  })
})
