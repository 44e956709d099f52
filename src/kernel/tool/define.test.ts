import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { type DefinedTool, isDefinedTool, tool } from './define.ts'
import type { ToolContext } from './tool.ts'

describe('tool', () => {
  it('returns a frozen, marked copy of the definition', () => {
    const definition = {
      id: 'A.B@1.0.0',
      description: 'd',
      input: {},
      output: null,
      run: () => undefined,
    } as const
    const defined = tool(definition)
    expect(defined).toMatchObject(definition)
    expect(Object.isFrozen(defined)).toBe(true)
    expect(isDefinedTool(defined)).toBe(true)
    expect(isDefinedTool(definition)).toBe(false)
    expect([null, undefined, 1, 'x', {}, () => 1].some(isDefinedTool)).toBe(false)
  })

  it('recognises tools that another copy of the package made', () => {
    expect(isDefinedTool({ id: 'A.B@1.0.0', [Symbol.for('collet.tool')]: true })).toBe(true)
  })

  it('infers the argument and result of `run` from zod', () => {
    const add = tool({
      id: 'Calculator.Add@1.0.0',
      description: 'Adds two numbers together.',
      input: z.object({
        a: z.number(),
        when: z.iso.datetime().transform((text) => new Date(text)),
        n: z.int().default(1),
      }),
      output: z.object({ sum: z.number(), note: z.string().default('') }),
      run: (input, context) => {
        expectTypeOf(input).toEqualTypeOf<{ a: number; when: Date; n: number }>()
        expectTypeOf(context).toEqualTypeOf<ToolContext>()
        return { sum: input.a + input.n }
      },
    })
    expectTypeOf(add).toExtend<DefinedTool>()
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: z.object({}),
      output: z.number(),
      // @ts-expect-error a string is not the number that `output` says
      run: () => 'three',
    })
  })

  it('infers from arktype and from valibot through its converter', () => {
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: type({ a: 'number', 'b?': 'string' }),
      output: type('string[]'),
      run: async (input) => {
        expectTypeOf(input).toEqualTypeOf<{ a: number; b?: string }>()
        return [input.b ?? '']
      },
    })
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: toStandardJsonSchema(v.object({ a: v.number() })),
      output: null,
      run: async (input) => {
        expectTypeOf(input).toEqualTypeOf<{ a: number }>()
      },
    })
  })

  it('infers from inline JSON Schema', () => {
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: {
        type: 'object',
        properties: {
          city: { type: 'string', description: 'City.' },
          unit: { enum: ['c', 'f'], description: 'Unit.' },
          days: { type: 'array', items: { type: 'integer' }, description: 'Days.' },
        },
        required: ['city'],
      },
      output: { type: ['number', 'null'] },
      run: (input) => {
        expectTypeOf(input.city).toEqualTypeOf<string>()
        expectTypeOf(input.unit).toEqualTypeOf<'c' | 'f' | undefined>()
        expectTypeOf(input.days).toEqualTypeOf<readonly number[] | undefined>()
        return input.city === '' ? null : 21
      },
    })
  })

  it('falls back to any JSON if a schema specifies nothing more', () => {
    const wide: JsonObject = { type: 'object' }
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: wide,
      output: {},
      run: (input) => {
        expectTypeOf(input).toEqualTypeOf<JsonObject>()
        return { any: [1, 'x', null] } satisfies JsonValue
      },
    })
    tool({
      id: 'A.B@1.0.0',
      description: 'd',
      input: {},
      output: null,
      // @ts-expect-error a tool without output gives no value
      run: () => 5,
    })
  })
})
