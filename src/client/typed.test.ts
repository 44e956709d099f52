import { describe, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import type { JsonValue } from '#kernel/base/json'
import { tool, workflow } from '#kernel/tool/define'
import { createGateway, type Gateway } from '#server/create-gateway'
import {
  type ColletClient,
  connect,
  type ToolInput,
  type ToolName,
  type ToolOutput,
  type TypedClient,
} from './index.ts'

/** As `collet types` writes them. */
interface Tools {
  'Calculator.Add': {
    names: 'Calculator.Add@1.0.0' | 'Calculator_Add'
    input: { a: number; b?: number }
    output: number
  }
  'Clock.Read': { names: never; input: { zone?: 'utc' | 'local' }; output: { at: string } }
}

const add = tool({
  id: 'Calculator.Add@1.0.0',
  description: 'Adds.',
  input: { a: z.number(), b: z.number().default(1) },
  output: z.number(),
  run: ({ a, b }) => a + b,
})
const note = tool({
  id: 'Note.Write@2.0.0',
  description: 'Writes.',
  input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  output: null,
  run: () => undefined,
})
const both = workflow({
  id: 'Flow.Both@1.0.0',
  description: 'Both.',
  input: {},
  output: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] },
  uses: [add, note],
  run: () => ({ sum: 1 }),
})
const written = [add, note, both] as const
const exported = { add, note, both, helper: () => 1 }

// The functions are only compiled: nothing listens.
const URL = 'http://127.0.0.1:9'

describe('connect', () => {
  it('accepts any name and input without types', () => {
    const client = connect(URL)
    expectTypeOf(client).toEqualTypeOf<ColletClient>()
    expectTypeOf(client.call).parameter(0).toExtend<string | object>()
    expectTypeOf(
      client
        .call('Any.Name', { any: 1 })
        .then(({ value }) => value)
        .catch(() => null),
    ).toEqualTypeOf<Promise<JsonValue>>()
  })

  it('has the names, inputs and outputs of the tools in a file', () => {
    void (async (client: TypedClient<Tools>) => {
      expectTypeOf((await client.call('Calculator.Add', { a: 1 })).value).toBeNumber()
      expectTypeOf((await client.call('Calculator_Add', { a: 1, b: 2 }, { callId: 'x' })).value).toBeNumber()
      expectTypeOf((await client.call('Clock.Read')).value).toEqualTypeOf<{ at: string }>()
      const tried = await client.tryCall('Clock.Read', { zone: 'utc' })
      if (tried.ok) expectTypeOf(tried.value.at).toBeString()
      await using session = await client.openSession('Clock.Read')
      expectTypeOf((await session.call()).value.at).toBeString()
      expectTypeOf((await client.list()).length).toBeNumber()
      // @ts-expect-error: there is no such tool
      await client.call('Calculator.Sub', { a: 1 })
      // @ts-expect-error: there is no such tool
      await client.get('Calculator.Sub')
      // @ts-expect-error: a is required
      await client.call('Calculator.Add')
      // @ts-expect-error: a is a number
      await client.call('Calculator.Add', { a: 'one' })
      // @ts-expect-error: no member of that name
      await client.call('Clock.Read', { zon: 'utc' })
    })
    expectTypeOf(connect<Tools>(URL)).toEqualTypeOf<TypedClient<Tools>>()
    expectTypeOf<ToolName<Tools>>().toEqualTypeOf<keyof Tools | 'Calculator.Add@1.0.0' | 'Calculator_Add'>()
    expectTypeOf<ToolInput<Tools, 'Calculator_Add'>>().toEqualTypeOf<{ a: number; b?: number }>()
    expectTypeOf<ToolOutput<Tools, 'Clock.Read'>>().toEqualTypeOf<{ at: string }>()
  })

  it.each(['a list of tools', 'a module that exports tools'])('has the types of %s', () => {
    type Names = `${'Calculator.Add' | 'Flow.Both'}${'' | '@1.0.0'}` | `Note.Write${'' | '@2.0.0'}`
    expectTypeOf<ToolName<typeof written>>().toEqualTypeOf<Names>()
    expectTypeOf<ToolName<typeof exported>>().toEqualTypeOf<Names>()
    expectTypeOf<ToolInput<typeof written, 'Calculator.Add'>>().toEqualTypeOf<{
      a: number
      b?: number | undefined
    }>()
    expectTypeOf<ToolInput<typeof exported, 'Note.Write@2.0.0'>>().toExtend<{ readonly text: string }>()
    expectTypeOf<ToolOutput<typeof exported, 'Note.Write'>>().toEqualTypeOf<null>()
    expectTypeOf<ToolOutput<typeof written, 'Flow.Both'>['sum']>().toBeNumber()
    void (async () => {
      const client = connect<typeof exported>(URL)
      expectTypeOf((await client.call('Calculator.Add', { a: 1 })).value).toBeNumber()
      // @ts-expect-error: text is required
      await client.call('Note.Write', {})
    })
  })
})

describe('createGateway', () => {
  it('types calls by the tools in its config', () => {
    void (async () => {
      const gateway = await createGateway({ tools: [add, note, './more/*.ts'] })
      const sum = await gateway.call('Calculator.Add', { a: 1 })
      if (sum.ok) expectTypeOf(sum.value).toBeNumber()
      // @ts-expect-error: a is a number
      await gateway.call('Calculator.Add@1.0.0', { a: 'one' })
      const other = await gateway.call('More.Anything', { any: [1] }, { key: 'k' })
      if (other.ok) expectTypeOf(other.value).toEqualTypeOf<JsonValue>()
      expectTypeOf(gateway).toExtend<Gateway>()
    })
  })
})
