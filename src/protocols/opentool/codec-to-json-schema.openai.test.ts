import { describe, expect, it } from 'vitest'
import { isToolError } from '#kernel/base/errors'
import { fromOpenAiToolCall, toOpenAiTool } from './codec-to-json-schema.ts'

describe('tools for OpenAI', () => {
  it('OTS-68: a function becomes a tool', () => {
    const parameters = [
      { name: 'a', description: 'left', schema: { type: 'number' }, required: true },
    ] as const
    expect(toOpenAiTool({ name: 'add', description: 'Adds', parameters })).toEqual({
      type: 'function',
      function: {
        name: 'add',
        description: 'Adds',
        parameters: {
          type: 'object',
          properties: { a: { type: 'number', description: 'left' } },
          required: ['a'],
        },
      },
    })
  })

  it('OTS-67, OTS-68: a tool call becomes a function call', () => {
    const call = (text: string) =>
      fromOpenAiToolCall({ id: 'c1', function: { name: 'add', arguments: text } })
    expect(call('{"a":1}')).toEqual({ id: 'c1', name: 'add', arguments: { a: 1 } })
    expect(call(' ').arguments).toEqual({})
    for (const text of ['{', '[1]', 'null', '"a"']) {
      try {
        call(text)
        expect.unreachable()
      } catch (error) {
        if (!isToolError(error)) throw error
        expect(error).toMatchObject({ code: 'request_invalid' })
      }
    }
  })
})
