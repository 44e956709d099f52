import { describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { sampleTool } from '../../test/contracts/samples.ts'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from './test-gateway.ts'

const hello = tool({
  id: 'Hello.Greet@1.0.0',
  description: 'Greets.',
  input: {
    type: 'object',
    properties: { name: { type: 'string', description: 'Whom.' } },
    required: ['name'],
  },
  output: { type: 'string' },
  run: ({ name }) => `Hello ${name}`,
})

describe('openTestGateway', () => {
  it('accepts written definitions and prepared tools', async () => {
    const gateway = openTestGateway([hello, sampleTool('Hello.Wave@1.0.0', () => 'o/')])
    expect(gist(await gateway.call(ALICE, callRequest('Hello.Greet', { input: { name: 'Ann' } })))).toBe(
      'ok "Hello Ann"',
    )
    expect(gist(await gateway.call(ALICE, callRequest('Hello.Wave')))).toBe('ok "o/"')
    expect(errorOf(await gateway.call(ALICE, callRequest('Hello.Greet')))).toMatchObject({
      code: 'input_invalid',
      message: expect.stringContaining('name: Is required'),
    })
    await gateway.drain(0)
  })

  it('throws the findings of an invalid definition', () => {
    expect(() => openTestGateway([{ ...hello, description: '' }])).toThrow(
      /Hello\.Greet@1\.0\.0[\s\S]*description/,
    )
  })
})
