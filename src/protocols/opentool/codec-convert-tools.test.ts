import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { ToolDefinition } from '#kernel/tool/define'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type { Tool } from '#kernel/tool/tool'
import { cpuMsSince } from '../../../test/cpu-time.ts'
import { documentOf, returnNameOf } from './codec-convert-tools.ts'
import { load, serialize, validate } from './codec-document-read.ts'

const INFO = { title: 'Calculator', version: '1.2.3' }

function toolOf(definition: Omit<Partial<ToolDefinition>, 'id'> & { readonly id: string }): Tool {
  const prepared = prepareTool({
    description: 'Does it',
    input: {},
    output: null,
    run: () => null,
    ...definition,
  })
  if (prepared.tool === undefined) throw new Error(JSON.stringify(prepared.findings))
  return prepared.tool
}

/** The defaults of a tool. */
const USUAL = { safetyTier: 'write' }

describe('documentOf', () => {
  it('OTS-81: describes the newest version of each prepared tool, in order', () => {
    const input = z.object({
      a: z.number().describe('left'),
      b: z.number().min(1).optional().describe('right'),
    })
    const tools = [
      toolOf({ id: 'Calc.Add@1.10.0', input, output: z.number().meta({ title: 'sum', description: 'a+b' }) }),
      toolOf({ id: 'Calc.Ping@1.0.0' }),
      toolOf({ id: 'Calc.Add@1.9.0' }),
    ]
    const { document, toolOf: dispatch, nameOf, losses, skipped } = documentOf(tools, INFO)
    expect(document).toEqual({
      opentool: '1.1.0',
      info: INFO,
      functions: [
        {
          name: 'Calc_Add',
          description: 'Does it',
          parameters: [
            { name: 'a', description: 'left', schema: { type: 'number' }, required: true },
            {
              name: 'b',
              description: 'right. Constraints: minimum 1',
              schema: { type: 'number' },
              required: false,
            },
          ],
          return: { name: 'sum', description: 'a+b', schema: { type: 'number' } },
          'x-collet': { id: 'Calc.Add@1.10.0', catalogId: 'openwop:Calc.Add', ...USUAL },
        },
        {
          ...{ name: 'Calc_Ping', description: 'Does it', parameters: [] },
          'x-collet': { id: 'Calc.Ping@1.0.0', catalogId: 'openwop:Calc.Ping', ...USUAL },
        },
      ],
    })
    expect(dispatch.get('Calc_Add')?.id).toBe('Calc.Add@1.10.0')
    expect(nameOf.get('Calc.Add@1.10.0')).toBe('Calc_Add')
    expect(skipped).toEqual([])
    expect(losses).toContainEqual({
      toolId: 'Calc.Add@1.10.0',
      side: 'input',
      pointer: '/properties/b/minimum',
      keyword: 'minimum',
      severity: 'annotated',
    })
    expect(validate(document)).toEqual([])
    expect(load(serialize(document))).toEqual(document)
  })

  it('OTS-38: the name of the return is the title of the output, if that is a legal name', () => {
    const named = (title: string) => toolOf({ id: 'A.B@1.0.0', output: { type: 'string', title } })
    expect(returnNameOf(named('greeting'))).toBe('greeting')
    expect(returnNameOf(named('The greeting'))).toBe('result')
    const returnOf = (tool: Tool) => documentOf([tool], INFO).document.functions[0]?.return
    expect(returnOf(named('The greeting'))).toEqual({
      name: 'result',
      description: 'The greeting',
      schema: { type: 'string' },
    })
    expect(returnOf(toolOf({ id: 'A.B@1.0.0', output: {} }))).toEqual({
      name: 'result',
      schema: { type: 'object', properties: {} },
    })
  })

  it('OTS-84: tools with the same name get different ones, and each identifies its tool', () => {
    const tools = ['A.Add@1.0.0', 'B.Add@1.0.0'].map((id) => toolOf({ id, name: 'add' }))
    const { document, toolOf: dispatch, nameOf } = documentOf(tools, INFO)
    const [first, second] = document.functions.map(({ name }) => name)
    expect(first).toBe('add')
    expect(second).toMatch(/^add_[0-9a-f]{8}$/)
    expect(dispatch.get(second ?? '')?.id).toBe('B.Add@1.0.0')
    expect(nameOf.get('B.Add@1.0.0')).toBe(second)
  })

  it('OTS-83: skips only a tool that cannot be described', () => {
    const never = {
      type: 'object',
      properties: { p: { not: {}, allOf: [{ const: 1 }, { const: 2 }], description: 'd' } },
    }
    const tools = [toolOf({ id: 'A.Never@1.0.0', input: never }), toolOf({ id: 'A.B@1.0.0' })]
    const { document, losses, skipped, toolOf: dispatch } = documentOf(tools, INFO)
    expect(document.functions.map(({ name }) => name)).toEqual(['A_B'])
    expect(skipped.map(({ id }) => id)).toEqual(['A.Never@1.0.0'])
    expect(dispatch.has('A_Never')).toBe(false)
    expect(losses.map(({ toolId, severity }) => [toolId, severity])).toContainEqual([
      'A.Never@1.0.0',
      'unrepresentable',
    ])
  })

  it('OTS-82: adds constraints on the whole input to the description, and keeps the server', () => {
    const input = {
      type: 'object',
      title: 'Input',
      description: 'In',
      minProperties: 1,
      additionalProperties: { type: 'string' },
    }
    const server = { url: 'http://127.0.0.1:9627/opentool' }
    const { document } = documentOf([toolOf({ id: 'A.B@1.0.0', description: 'Does.', input })], INFO, {
      server,
    })
    expect(document.server).toEqual(server)
    expect(document.functions[0]?.description).toBe(
      'Does. Constraints: minProperties 1; map of string to string',
    )
  })

  it('describes 10 000 tools in seconds', () => {
    const tool = toolOf({
      id: 'A.B@1.0.0',
      input: z.object({ a: z.enum(['x', 'y']).describe('a') }),
      output: z.string(),
    })
    const tools = Array.from({ length: 10_000 }, (_, index) => ({
      ...tool,
      id: `A.B${index}@1.0.0`,
      parts: { base: `A.B${index}`, toolkit: 'A', name: `B${index}`, version: '1.0.0' },
      name: `A_B${index}`,
    }))
    const started = process.cpuUsage()
    expect(validate(documentOf(tools, INFO).document)).toEqual([])
    expect(cpuMsSince(started)).toBeLessThan(5_000)
  })
})
