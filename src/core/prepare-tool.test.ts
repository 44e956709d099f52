import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tool } from './define-tool.ts'
import { type PrepareOptions, prepareTool } from './prepare-tool.ts'
import type { Tool } from './tool.ts'

const ADD = {
  id: 'Calculator.Add@1.0.0',
  description: 'Adds two numbers together.',
  input: {
    type: 'object',
    properties: {
      a: { type: 'number', description: 'The first number.' },
      b: { type: 'number', description: 'The second number.' },
    },
    required: ['a', 'b'],
  },
  output: { type: 'number' },
  run: ({ a, b }: { a: number; b: number }) => a + b,
}

function prepared(definition: unknown, options?: PrepareOptions): Tool {
  const result = prepareTool(definition, options)
  return result.ok ? result.tool : expect.fail(JSON.stringify(result.findings, null, 2))
}

/** `where: problem` of each finding. */
function findingsOf(changes: Record<string, unknown>, options?: PrepareOptions): string[] {
  const result = prepareTool({ ...ADD, ...changes }, options)
  if (result.ok) return []
  for (const { fix } of result.findings) expect(fix).not.toBe('')
  return result.findings.map(({ where, problem }) => `${where}: ${problem}`)
}

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

  it('keeps everything an author says', () => {
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

  it('gives every finding at once, with the file and what to write instead', () => {
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
    expect(!result.ok && result.findings.map(({ where }) => where).sort()).toEqual([
      'description',
      'id',
      'input/properties/a',
      'nmae',
      'output',
      'policy/replay',
      'run',
    ])
    expect(
      !result.ok && result.findings.every(({ file, toolId }) => file === 'tools/add.ts' && toolId === 'Add'),
    ).toBe(true)
  })

  it('refuses what is no definition', () => {
    for (const value of [undefined, null, 1, 'x', [], () => 1]) {
      const result = prepareTool(value)
      expect(!result.ok && result.findings).toMatchObject([{ toolId: '(no id)', where: 'tool' }])
    }
  })

  it('OTC-41: is closed, and suggests the name that was meant', () => {
    expect(findingsOf({ desciption: 'x' })).toEqual([
      'desciption: "desciption" is not known here. Did you mean "description"?',
    ])
    expect(findingsOf({ policy: { safteyTier: 'read' } })).toEqual([
      'policy/safteyTier: "safteyTier" is not known here. Did you mean "safetyTier"?',
    ])
  })
})

describe('identity', () => {
  it('OTC-23, T-09: wants Toolkit.Name@x.y.z', () => {
    for (const id of [
      undefined,
      1,
      'Add',
      'A.B',
      'A.B@1',
      'A.B@1.0',
      'A.B@1.0.0-rc.1',
      'A B.C@1.0.0',
      'A.B@v1.0.0',
    ]) {
      expect(findingsOf({ id })).toEqual([expect.stringMatching(/^id: /)])
    }
    const result = prepareTool({ ...ADD, id: 'Mail.Send@v2.1.0' })
    expect(!result.ok && result.findings[0]?.fix).toContain('"Mail.Send@2.1.0"')
  })

  it('OTC-25: a name has 1 to 64 of A-Za-z0-9_-', () => {
    for (const name of ['n'.repeat(64), 'A-B', '0_']) expect(findingsOf({ name })).toEqual([])
    for (const name of ['n'.repeat(65), '', 'A.B', 'A B', 5, 'ä', 'a\n']) {
      expect(findingsOf({ name })).toEqual([expect.stringMatching(/^name: /)])
    }
  })

  it('OTC-25: asks for a name when the one made from the id is too long', () => {
    const id = `${'T'.repeat(40)}.${'N'.repeat(40)}@1.0.0`
    expect(findingsOf({ id })).toEqual([
      'name: The name made from the id has 81 characters, and 64 is the most.',
    ])
    expect(findingsOf({ id, name: 'short' })).toEqual([])
  })

  it('OTC-26: a description is a text that says something', () => {
    for (const description of [undefined, '', '  ', 5]) {
      expect(findingsOf({ description })).toEqual([expect.stringMatching(/^description: /)])
    }
    expect(findingsOf({ title: '' })).toEqual([expect.stringMatching(/^title: /)])
  })

  it('OTC-27, OTC-28, T-11: a version repeats the one of the id', () => {
    expect(findingsOf({ version: '1.0.0' })).toEqual([])
    expect(findingsOf({ version: '1.0.1' })).toEqual(['version: Is "1.0.1", but the id says "1.0.0".'])
    for (const version of ['1.0', '1.0.0-rc.1', 'v1.0.0', 1]) {
      expect(findingsOf({ version })).toEqual([expect.stringMatching(/^version: /)])
    }
  })

  it.each<[NonNullable<PrepareOptions['source']>, string[], string[]]>([
    [
      'node-pack',
      ['openwop:core.http.request', 'openwop:a%20b'],
      ['core.http', 'openwop:', 'openwop:a b', 'mcp:a.b', 'openwop:a%2'],
    ],
    ['workflow', ['workflow:daily-report'], ['daily-report']],
    ['mcp', ['mcp:github.create_issue'], ['mcp:create', 'mcp:a/b.c']],
    ['connector', ['connector:slack.post'], ['slack.post']],
    [
      'host-extension',
      ['x-host-acme-shell', 'acme.edge:render'],
      ['x-host-Acme-shell', 'x-host-acme', 'edge:render'],
    ],
  ])('openwop §7.1: catalog ids of source %s', (source, good, bad) => {
    for (const catalogId of good) expect(findingsOf({ catalogId }, { source }), catalogId).toEqual([])
    for (const catalogId of [...bad, `openwop:${'x'.repeat(250)}`, 5]) {
      expect(findingsOf({ catalogId }, { source }), String(catalogId)).toEqual([
        expect.stringMatching(/^catalogId: /),
      ])
    }
  })

  it('openwop §7.1: only code has a catalog id by default', () => {
    expect(findingsOf({}, { source: 'mcp' })).toEqual(['catalogId: Is missing.'])
  })
})

describe('schemas', () => {
  it('OTC-30, OTC-35: both must be there; `{}` and `null` are listed as they are', () => {
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

  it('OTC-32, C-10: each parameter has a description, nested ones need none', () => {
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

  it('refuses recursion, whatever made the schema', () => {
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

describe('requirements', () => {
  it('OTC-37…41: are kept as written, unknown members included', () => {
    const requirements = {
      authorization: [
        { id: 'google', oauth2: { scopes: ['mail'], audience: 'x' }, note: 1 },
        { id: 'github' },
      ],
      secrets: [{ id: 'KEY', note: 'x' }],
      userId: true,
      region: 'eu',
    }
    expect(prepared({ ...ADD, requirements }).requirements).toEqual(requirements)
  })

  it('OTC-37: are absent when nothing is needed', () => {
    for (const requirements of [undefined, {}, { secrets: [], authorization: [], userId: false }]) {
      expect(prepared({ ...ADD, requirements })).not.toHaveProperty('requirements')
    }
  })

  it('OTC-38, OTC-39, OTC-40, C-29: entries have ids, scopes are texts, `userId` is a boolean', () => {
    const requirements = {
      authorization: [
        { oauth2: {} },
        { id: 'a', oauth2: { scopes: [1] } },
        { id: 'b', oauth2: 'x' },
        'c',
        { id: 'a' },
      ],
      secrets: [{}, { id: '' }],
      userId: 'yes',
      user_id: true,
    }
    expect(findingsOf({ requirements }).map((finding) => finding.split(':')[0])).toEqual([
      'requirements/userId',
      'requirements/user_id',
      'requirements/authorization/0/id',
      'requirements/authorization/1/oauth2/scopes',
      'requirements/authorization/2/oauth2',
      'requirements/authorization/3',
      'requirements/authorization/4/id',
      'requirements/secrets/0/id',
      'requirements/secrets/1/id',
    ])
    expect(findingsOf({ requirements: [] })).toEqual(['requirements: Is not an object.'])
    expect(findingsOf({ requirements: { secrets: {} } })).toEqual(['requirements/secrets: Is not a list.'])
    expect(findingsOf({ requirements: { x: () => 1 } })).toEqual([
      expect.stringMatching(/^requirements\/x: /),
    ])
  })
})

describe('policy', () => {
  it('rule 7: a tool with effects is not deterministic', () => {
    expect(findingsOf({ policy: { replay: 'deterministic' } })).toEqual([
      expect.stringMatching(/^policy\/replay: .*write/),
    ])
    expect(findingsOf({ policy: { replay: 'deterministic', safetyTier: 'read' } })).toEqual([])
  })

  it('refuses `exec` for code', () => {
    expect(findingsOf({ policy: { safetyTier: 'exec' } })).toEqual([
      expect.stringMatching(/^policy\/safetyTier: `exec`/),
    ])
    const host = { catalogId: 'x-host-acme-shell', policy: { safetyTier: 'exec' } }
    expect(findingsOf(host, { source: 'host-extension' })).toEqual([])
  })

  it('refuses unknown choices, and numbers and scopes that make no sense', () => {
    expect(
      findingsOf({ policy: { safetyTier: 'reed', egress: 'all', approval: true, costHint: 'toString' } }),
    ).toEqual([
      'policy/egress: Is "all".',
      'policy/costHint: Is "toString".',
      'policy/safetyTier: Is "reed". Did you mean "read"?',
      'policy/approval: Is true.',
    ])
    for (const timeoutMs of [0, -1, 1.5, Number.NaN, '5', 2 ** 31]) {
      expect(findingsOf({ policy: { timeoutMs } })).toEqual([expect.stringMatching(/^policy\/timeoutMs: /)])
    }
    expect(findingsOf({ policy: { rerunWindowMs: -1 } })).toEqual(['policy/rerunWindowMs: Is -1.'])
    for (const scopes of ['a', [''], [1]]) {
      expect(findingsOf({ policy: { scopes } })).toEqual([expect.stringMatching(/^policy\/scopes: /)])
    }
    expect(findingsOf({ policy: 'read' })).toEqual(['policy: Is not an object.'])
  })
})

describe('definitionHash', () => {
  it('is the same for the same definition however its members are ordered, and differs for any change', () => {
    const { definitionHash } = prepared(ADD)
    expect(definitionHash).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(prepared(Object.fromEntries(Object.entries(ADD).reverse())).definitionHash).toBe(definitionHash)
    const changed = [
      { id: 'Calculator.Add@1.0.1' },
      { name: 'x' },
      { title: 'x' },
      { catalogId: 'openwop:x' },
      { description: 'x' },
      { input: {} },
      { output: null },
      { requirements: { userId: true } },
      { requirements: { region: 'eu' } },
      { policy: { timeoutMs: 1 } },
      { policy: { scopes: ['x'] } },
    ]
    const hashes = changed.map((change) => prepared({ ...ADD, ...change }).definitionHash)
    expect(new Set([definitionHash, ...hashes]).size).toBe(changed.length + 1)
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

  it('T-13: an input that is no object is wrong as a whole, also without parameters', () => {
    for (const input of [null, 1, 'x', [], true]) {
      expect(prepared({ ...ADD, input: {} }).checkInput(input)).toEqual([
        { pointer: '', message: 'Must be an object' },
      ])
    }
  })

  it('gives plain input to `run` as it came', async () => {
    const input = { a: 1, b: 2 }
    const parsed = await prepared(ADD).parseInput(input)
    expect(parsed.ok && parsed.input).toBe(input)
    expect(runOf(prepared(ADD), input)).toBe(3)
  })

  it('gives `run` what the library parsed, and its issues otherwise', async () => {
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

  it('T-14, OTC-90: checks outputs, and neither `{}` nor `null`', () => {
    expect(prepared(ADD).checkOutput('3')).toEqual(['value: Must be a number'])
    expect(
      prepared({ ...ADD, output: { properties: { a: { type: 'null' } } } }).checkOutput({ a: 1 }),
    ).toEqual(['/a: Must be null'])
    expect(prepared({ ...ADD, output: {} }).checkOutput('any')).toEqual([])
    expect(prepared({ ...ADD, output: null }).checkOutput('dropped')).toEqual([])
    expect(prepared(ADD).checkOutput(1)).toBe(prepared(ADD).checkOutput(2))
  })

  it('is made from what `tool()` gives, and `this` is the definition', () => {
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
})
