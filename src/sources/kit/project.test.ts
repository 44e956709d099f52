import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'
import type { RunningGateway } from '#stages/open-gateway'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from '#testing/test-gateway'
import { sampleOffer } from '../../../test/contracts/source-contract.ts'
import { cpuMsSince } from '../../../test/cpu-time.ts'
import { sampleSource } from '../../../test/samples/sources.ts'
import { projectTools } from './project.ts'
import type { OfferedTool, Source } from './source.ts'

const IDENTITY = { origin: 'https://tools.example' }
const LIMITS = { vendor: 'local', defaultTimeoutMs: 60_000 }

async function project(offered: readonly OfferedTool[], source: Source = sampleSource()) {
  return projectTools(
    source,
    offered.map((offer) => ({ offered: offer, identity: IDENTITY, version: '1.0.0' })),
    LIMITS,
  )
}

async function only(offered: OfferedTool, source?: Source): Promise<Tool> {
  const { tools, findings } = await project([offered], source)
  expect(findings).toEqual([])
  const [tool] = tools
  if (tool === undefined) throw new Error('no tool')
  return tool
}

function withInput(inputSchema: JsonObject): OfferedTool {
  return sampleOffer('read', { inputSchema })
}

describe('projecting accepted definitions', () => {
  it('gives the ids of openwop §7.1 and the source key as toolkit', async () => {
    const { id, name, catalogId, source } = await only(sampleOffer('read file'))
    expect({ id, name, catalogId, source }).toEqual({
      id: 'files.read_file@1.0.0',
      name: 'files_read_file',
      catalogId: 'mcp:files.read%20file',
      source: 'mcp',
    })
  })

  it('replaces a recursive part with {} and still enforces the original', async () => {
    const node = {
      type: 'object',
      properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
      required: ['name'],
    }
    const tool = await only(
      withInput({ type: 'object', properties: { root: { $ref: '#/$defs/node' } }, $defs: { node } }),
    )
    expect(tool.inputSchema).toEqual({
      type: 'object',
      properties: {
        root: {
          type: 'object',
          properties: { name: { type: 'string' }, children: { type: 'array', items: {} } },
          required: ['name'],
        },
      },
    })
    const deep = { root: { name: 'a', children: [{ name: 'b', children: [{}] }] } }
    expect(tool.checkInput(deep).map(({ pointer }) => pointer)).toEqual(['/root/children/0/children/0/name'])
    expect(tool.checkInput({ root: { name: 'a', children: [{ name: 'b' }] } })).toEqual([])
  })

  it('OTC-32: a parameter without a description causes a warning, and the tool is served', async () => {
    const { tools, findings, warnings } = await project([
      withInput({ type: 'object', properties: { a: {} } }),
    ])
    expect(tools).toHaveLength(1)
    expect(findings).toEqual([])
    expect(warnings.map(({ problem }) => problem)).toEqual(['1 of its parameters have no description: a.'])
  })

  it('leaves out only the tool whose schema cannot be checked', async () => {
    const { tools, findings } = await project([
      withInput({ type: 'objekt' }),
      sampleOffer('write', { inputSchema: { type: 'object', properties: { a: { $ref: '#/$defs/none' } } } }),
      sampleOffer('list'),
    ])
    expect(tools.map(({ id }) => id)).toEqual(['files.list@1.0.0'])
    expect(findings.map(({ toolId, where }) => `${toolId} ${where}`)).toEqual([
      'files.read@1.0.0 input/type',
      'files.write@1.0.0 input/properties/a/$ref',
    ])
  })

  it('leaves out only the tool whose definition its source cannot read', async () => {
    const source = sampleSource({
      policyFor: ({ nativeName }) => {
        if (nativeName === 'broken') throw new Error('no method in the binding')
        return { safetyTier: 'read' }
      },
    })
    const { tools, findings } = await project([sampleOffer('broken'), sampleOffer('list')], source)
    expect(tools.map(({ id }) => id)).toEqual(['files.list@1.0.0'])
    expect(findings).toMatchObject([
      { toolId: 'files.broken@1.0.0', problem: 'Cannot be read: no method in the binding.' },
    ])
  })

  it('runs untrusted patterns in linear time', async () => {
    const tool = await only(
      withInput({ type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } }),
    )
    const started = process.cpuUsage()
    expect(tool.checkInput({ a: `${'a'.repeat(50_000)}!` })).toHaveLength(1)
    expect(tool.checkInput({ a: 'aaa' })).toEqual([])
    expect(cpuMsSince(started)).toBeLessThan(2_000)
  })

  it('keeps a tool whose pattern cannot run in linear time, shows the pattern, and warns that it is not enforced', async () => {
    const lookahead = '^(?=.*\\d).+$'
    const { tools, warnings } = await project([
      withInput({
        type: 'object',
        properties: {
          a: { type: 'string', pattern: lookahead, description: 'x' },
          b: { not: { pattern: lookahead }, description: 'x' },
        },
        patternProperties: { '(?!x)y': { type: 'number' } },
        additionalProperties: false,
      }),
    ])
    const [tool] = tools
    expect(tool?.inputSchema).toMatchObject({ properties: { a: { pattern: lookahead } } })
    expect(tool?.checkInput({ a: 'none', b: '1', y: 'text' })).toEqual([])
    expect(tool?.checkInput({ a: 1 })).toHaveLength(1)
    expect(warnings.map(({ where }) => where)).toEqual([
      'input/patternProperties/(?!x)y',
      'input/properties/a/pattern',
      'input/properties/b/not/pattern',
    ])
  })

  it('reads keywords of older drafts and of OpenAPI', async () => {
    const tool = await only(
      withInput({
        $schema: 'http://json-schema.org/draft-07/schema#',
        $id: 'https://a.example/tool',
        properties: {
          pair: { type: 'array', items: [{ type: 'number' }, { type: 'string' }], additionalItems: false },
          name: { type: 'string', nullable: true },
          age: { type: 'number', minimum: 0, exclusiveMinimum: true },
          self: { $ref: 'https://a.example/tool#/definitions/word' },
        },
        definitions: { word: { type: 'string', pattern: '^[\\w\\-]+\\-\\@$' } },
      }),
    )
    expect(tool.inputSchema).toMatchObject({ type: 'object' })
    expect(tool.checkInput({ pair: [1, 'a'], name: null, age: 1, self: 'a-b-@' })).toEqual([])
    const wrong = tool.checkInput({ pair: [1, 'a', 2], name: 1, age: 0, self: 'a' })
    expect(wrong.map(({ parameter }) => parameter)).toEqual(['pair', 'name', 'age', 'self'])
  })

  it('calls the upstream with the pinned binding', async () => {
    const source = sampleSource()
    const offered = sampleOffer('read')
    const tool = await only(offered, source)
    const context = {}
    await expect(Reflect.apply(tool.run, tool, [{ path: 'a' }, context])).resolves.toEqual({ path: 'a' })
    expect(source.invoked).toMatchObject([
      { nativeName: 'read', binding: offered.binding, accepted: { offered }, input: { path: 'a' }, context },
    ])
  })

  it('rule 32: a suspended tool stays listed with its accepted definition, its calls send nothing, and they run after the decision', async () => {
    let opened = 0
    const source = sampleSource({
      sessionOf: ({ nativeName }) =>
        nativeName === 'stateful' ? { open: () => (opened += 1), idleMs: 1_000 } : undefined,
    })
    const store = openMemoryStore()
    const gatewayOf = async (suspended?: string) => {
      const pins = ['write', 'stateful'].map((name) => ({
        offered: sampleOffer(name),
        identity: IDENTITY,
        version: '1.0.0',
        ...(suspended === undefined ? {} : { suspended }),
      }))
      const { tools } = await projectTools(source, pins, LIMITS)
      expect(tools.map(({ description }) => description)).toEqual(['Does write.', 'Does stateful.'])
      return openTestGateway(tools, { store })
    }
    const call = (gateway: RunningGateway, name: string) =>
      gateway.call(ALICE, callRequest(`files.${name}`, { key: name, input: { path: 'a' } }))

    const suspended = await gatewayOf('its definition has changed')
    for (const name of ['write', 'stateful']) {
      const error = errorOf(await call(suspended, name))
      expect([error.code, error.canRetry]).toEqual(['upstream_failed', true])
      expect(error.message).toContain('An operator must accept the change')
    }
    expect([source.invoked, opened]).toEqual([[], 0])

    const running = await gatewayOf()
    for (const name of ['write', 'stateful']) expect(gist(await call(running, name))).toBe('ok {"path":"a"}')
    expect([source.invoked.length, opened]).toEqual([2, 1])
  })

  it('rule 21: a different binding or upstream changes the definition hash', async () => {
    const hashOf = async (offered: OfferedTool, identity: JsonObject = IDENTITY) =>
      (await projectTools(sampleSource(), [{ offered, identity, version: '1.0.0' }], LIMITS)).tools[0]
        ?.definitionHash
    const first = await hashOf(sampleOffer('read'))
    expect(await hashOf(sampleOffer('read'))).toBe(first)
    expect(await hashOf(sampleOffer('read', { binding: { url: 'https://other.example' } }))).not.toBe(first)
    expect(await hashOf(sampleOffer('read'), { origin: 'https://other.example' })).not.toBe(first)
  })

  it('projects a tool again only if something about it changed', async () => {
    let approval: 'never' | 'always' = 'never'
    const source = sampleSource({ policyFor: () => ({ approval }) })
    const pin = { offered: sampleOffer('a'), identity: IDENTITY, version: '1.0.0' }
    const make = async (changes: object = {}, from = source) =>
      (await projectTools(from, [{ ...pin, ...changes }], LIMITS)).tools[0]
    const first = await make()
    expect(await make()).toBe(first)
    expect(await make({ suspended: 'x' })).not.toBe(first)
    expect((await make({ version: '2.0.0' }))?.id).toBe('files.a@2.0.0')
    expect(await make({}, sampleSource())).not.toBe(first)
    approval = 'always'
    expect((await make())?.policy.approval).toBe('always')
  })

  it('OWP-31: an exec tool is a host extension, whatever its source is', async () => {
    const exec = sampleOffer('shell', { policy: { safetyTier: 'exec', approval: 'always' } })
    expect(await only(exec)).toMatchObject({ source: 'host-extension' })
    const { catalogId, policy } = await only(exec, sampleSource({ key: 'ops', kind: 'host-extension' }))
    expect([catalogId, policy.safetyTier, policy.approval]).toEqual(['x-host-ops-shell', 'exec', 'always'])
  })

  it('openwop §7.1: the vendor that a host extension names is in its catalog ids', async () => {
    const exec = (name: string) => sampleOffer(name, { policy: { safetyTier: 'exec', approval: 'always' } })
    const idOf = async (name: string, vendor: string) =>
      (await only(exec(name), sampleSource({ key: 'Ops', kind: 'host-extension', vendor }))).catalogId
    expect(await idOf('word-count', 'acme')).toBe('x-host-acme-word-count')
    expect(await idOf('shell', 'acme-labs')).toBe('x-host-acme-labs-shell')
    expect(await idOf('shell', 'Acme Inc')).toMatch(/^x-host-[a-z][a-z0-9-]*-shell$/)
  })

  it('OWP-33: an unclassified tool is `write`', async () => {
    expect((await only(sampleOffer('read', { policy: {} }))).policy.safetyTier).toBe('write')
  })

  it('OWP-59: refuses invalid input before anything is sent', async () => {
    const source = sampleSource()
    const gateway = openTestGateway([await only(sampleOffer('read'), source)])
    expect(gist(await gateway.call(ALICE, callRequest('files.read', { input: { path: 1 } })))).toBe(
      'input_invalid',
    )
    expect(source.invoked).toEqual([])
  })

  it('OWP-32: the operator’s policy takes precedence over the policy of the definition', async () => {
    const source = sampleSource({ policyFor: () => ({ safetyTier: 'read', approval: 'always' }) })
    expect((await only(sampleOffer('read'), source)).policy).toMatchObject({
      safetyTier: 'read',
      approval: 'always',
    })
  })
})
