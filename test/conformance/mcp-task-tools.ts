import { setTimeout as wait } from 'node:timers/promises'
import { ToolError } from '#kernel/base/errors'
import { type DefinedTool, tool } from '#kernel/tool/define'

/** Longer than a call may take before it becomes a task. */
const LONG_MS = 1_000

const TEXT = { type: 'string', description: 'Some text.' } as const
const CONFIRM = {
  type: 'object',
  properties: { confirm: { type: 'boolean' } },
  required: ['confirm'],
} as const
const NAME = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } as const

const textResult = (text: string) => ({ content: [{ type: 'text', text }] })

/** The tools that the scenarios of tasks call by name. */
export function taskTools(): readonly DefinedTool[] {
  return [
    tool({
      id: 'Tasks.Greet@1.0.0',
      name: 'greet',
      description: 'Greets at once.',
      input: { type: 'object', properties: { name: TEXT }, required: ['name'] },
      output: {},
      policy: { safetyTier: 'pure' },
      run: ({ name }) => textResult(`Hello, ${String(name)}!`),
    }),
    tool({
      id: 'Tasks.Slow@1.0.0',
      name: 'slow_compute',
      description: 'Runs for the requested number of seconds.',
      input: {
        type: 'object',
        properties: { seconds: { type: 'number', description: 'How long.' }, label: TEXT },
        required: ['seconds'],
      },
      output: {},
      policy: { safetyTier: 'read', timeoutMs: 120_000 },
      async run({ seconds }, { signal }) {
        await wait(Number(seconds) * 1_000, undefined, { signal })
        return textResult('Computed.')
      },
    }),
    tool({
      id: 'Tasks.Fails@1.0.0',
      name: 'failing_job',
      description: 'Fails after a second.',
      input: {},
      output: {},
      policy: { safetyTier: 'read' },
      task: 'required',
      async run() {
        await wait(LONG_MS)
        throw new ToolError('The job failed.')
      },
    }),
    tool({
      id: 'Tasks.Breaks@1.0.0',
      name: 'protocol_error_job',
      description: 'Ends with an error of the protocol.',
      input: {},
      output: {},
      policy: { safetyTier: 'read' },
      async run() {
        await wait(LONG_MS)
        throw new ToolError('The server failed.', { errorNumber: -32_603 })
      },
    }),
    tool({
      id: 'Tasks.Confirm@1.0.0',
      name: 'confirm_delete',
      description: 'Asks for a confirmation while it runs.',
      input: { type: 'object', properties: { filename: TEXT } },
      output: {},
      policy: { safetyTier: 'write' },
      async run({ filename }, { elicit }) {
        await wait(LONG_MS)
        const message = `Delete ${String(filename)}?`
        const { action } = await elicit({ mode: 'form', message, schema: CONFIRM })
        return textResult(action === 'accept' ? 'Deleted.' : 'Kept.')
      },
    }),
    tool({
      id: 'Tasks.Several@1.0.0',
      name: 'multi_input',
      description: 'Asks two questions at once while it runs.',
      input: {},
      output: {},
      policy: { safetyTier: 'read' },
      async run(_input, { elicit }) {
        await wait(LONG_MS)
        const ask = (message: string) => elicit({ mode: 'form', message, schema: NAME })
        const answers = await Promise.all([ask('Who asks?'), ask('Who answers?')])
        return textResult(answers.map(({ action }) => action).join(', '))
      },
    }),
    tool({
      id: 'Tasks.AsksFirst@1.0.0',
      name: 'test_tool_with_task',
      description: 'Asks at once, and then takes long.',
      input: {},
      output: {},
      policy: { safetyTier: 'read' },
      task: 'required',
      async run(_input, { elicit }) {
        const answer = await elicit({ mode: 'form', key: 'user_name', message: 'Who are you?', schema: NAME })
        await wait(LONG_MS)
        return textResult(`Hello, ${String(answer.action === 'accept' ? answer.content?.name : '')}!`)
      },
    }),
  ]
}
