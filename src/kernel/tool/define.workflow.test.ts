import { describe, expect, expectTypeOf, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { TEXT } from '../../../test/samples/workflows.ts'
import { isDefinedTool, isWorkflow, tool, workflow } from './define.ts'

describe('workflow()', () => {
  it('a step’s result has the type of its tool', () => {
    const typed = tool({
      id: 'Note.Typed@1.0.0',
      description: 'T.',
      input: TEXT,
      output: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] },
      run: () => ({ count: 1 }),
    })
    const made = workflow({
      id: 'Flow.Typed@1.0.0',
      description: 'T.',
      input: TEXT,
      output: { type: 'number' },
      uses: [typed],
      run: async ({ text }, { call }) => {
        const given = await call(typed, { text })
        expectTypeOf(given.count).toBeNumber()
        // @ts-expect-error: its input needs `text`
        void (() => call(typed, { words: text }))
        expectTypeOf(await call('Note.Typed', {})).toEqualTypeOf<JsonValue>()
        return given.count
      },
    })
    expect([isDefinedTool(made), isWorkflow(made), isWorkflow(typed)]).toEqual([true, true, false])
  })
})
