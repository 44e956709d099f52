import * as v from 'valibot'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { tool } from '#kernel/tool/define'
import { prepareTool } from '#kernel/tool/prepare-tool'

const forecast = tool({
  id: 'Weather.Forecast@1.0.0',
  description: 'Says how the weather will be.',
  input: {
    city: z.string().min(2).describe('Name of the city.'),
    days: z.int().default(1).describe('How many days.'),
    unit: z.enum(['C', 'F']).optional().describe('Unit of degrees.'),
  },
  output: { degrees: z.number() },
  run: (input) => {
    expectTypeOf(input).toEqualTypeOf<{ city: string; days: number; unit?: 'C' | 'F' | undefined }>()
    return { degrees: input.days }
  },
})

function prepared(definition: unknown) {
  const result = prepareTool(definition)
  if (result.tool === undefined) throw new Error(JSON.stringify(result.findings))
  return result.tool
}

describe('an object of schemas', () => {
  it('is an object schema, whose members are optional if their schema accepts undefined', () => {
    const { inputSchema, outputSchema } = prepared(forecast)
    expect(inputSchema).toMatchObject({
      type: 'object',
      required: ['city'],
      properties: {
        city: { type: 'string', minLength: 2 },
        days: { default: 1 },
        unit: { enum: ['C', 'F'] },
      },
    })
    expect(outputSchema).toMatchObject({ type: 'object', required: ['degrees'] })
  })

  it('is parsed by the library with its defaults, and drops undeclared members', async () => {
    const { parseInput } = prepared(forecast)
    expect(await parseInput({ city: 'Rome', other: 1 })).toEqual({
      ok: true,
      input: { city: 'Rome', days: 1 },
    })
    expect(await parseInput({ city: 'R' })).toMatchObject({ ok: false, issues: [{ parameter: 'city' }] })
  })

  it('keeps references inside its members', () => {
    const node: z.ZodType = z.lazy(() => z.object({ next: node.optional() }))
    const result = prepareTool({ ...forecast, input: { node: node.describe('A list.') } })
    // A recursive list cannot be inlined: the finding is about recursion, not about an unresolved reference.
    expect(result).toMatchObject({
      tool: undefined,
      findings: [{ where: expect.stringMatching(/^input\/properties\/node/) }],
    })
    const named = z.object({ a: z.string() }).meta({ id: 'Named' })
    const twice = z.object({ left: named, right: named }).describe('Two of them.')
    const tool = prepared({ ...forecast, input: { twice } })
    expect(tool.checkInput({ twice: { left: { a: 'x' }, right: { a: 1 } } })).toMatchObject([
      { pointer: '/twice/right/a' },
    ])
  })

  it('suggests a fix if a member is not a schema, or its library has no JSON Schema', () => {
    const mixed = prepareTool({ ...forecast, input: { city: z.string(), days: { type: 'number' } } })
    expect(mixed).toMatchObject({ findings: [{ fix: expect.stringContaining('z.object({ … })') }] })
    const bare = prepareTool({ ...forecast, input: { city: v.string() } })
    expect(bare).toMatchObject({ findings: [{ fix: expect.stringContaining('toStandardJsonSchema') }] })
  })
})
