import { ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { ToolDefinition } from '#kernel/tool/define'

export type FixtureFunction = ToolDefinition<JsonObject, JsonObject | null>

const NUM = { type: 'number', description: 'a number' }

/** The six functions of `vectors/opentool-calc.json`, written as tools. */
export function opentoolFixtures(): readonly FixtureFunction[] {
  return [
    {
      id: 'Calculator.Add@1.2.3',
      name: 'add',
      description: 'Add two numbers',
      input: object({ a: { ...NUM, description: 'left' }, b: { ...NUM, description: 'right' } }, ['a', 'b']),
      output: { title: 'sum', description: 'a+b', type: 'number' },
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ a, b }) => Number(a) + Number(b),
    },
    {
      id: 'Calculator.Div@1.2.3',
      name: 'div',
      description: 'Divide',
      input: object({ a: NUM, b: NUM }, ['a', 'b']),
      output: { title: 'quotient', type: 'number' },
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ a, b }) => {
        if (b === 0) throw new ToolError('Invalid Arguments: b must not be zero', { errorNumber: 400 })
        return Number(a) / Number(b)
      },
    },
    {
      id: 'Calculator.Echo@1.2.3',
      name: 'echo',
      description: 'Echo a value',
      input: object({ value: { type: 'string', description: 'what comes back' } }, ['value']),
      output: { title: 'value', type: 'string' },
      policy: { safetyTier: 'pure', replay: 'deterministic' },
      run: ({ value }) => String(value),
    },
    {
      id: 'Calculator.Noop@1.2.3',
      name: 'noop',
      description: 'Does nothing',
      input: object({}),
      output: null,
      run: () => undefined,
    },
    {
      id: 'Calculator.Boom@1.2.3',
      name: 'boom',
      description: 'Always throws',
      input: object({}),
      output: null,
      run: () => {
        throw new Error('boom')
      },
    },
    {
      id: 'Calculator.Paint@1.2.3',
      name: 'paint',
      description: 'Paint something',
      input: object(
        {
          color: { type: 'string', enum: ['red', 'green'], description: 'paint colour' },
          opts: {
            ...object({ size: { type: 'integer' }, tags: { type: 'array', items: { type: 'string' } } }, [
              'size',
            ]),
            description: 'how to paint',
          },
        },
        ['color'],
      ),
      output: { title: 'ok', type: 'boolean' },
      run: () => true,
    },
  ]
}

function object(properties: JsonObject, required: readonly string[] = []): JsonObject {
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) }
}
