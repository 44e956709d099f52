import { describe, expect, it } from 'vitest'
import { loadConfig } from '#config/load'
import { loadTools } from '#config/load-tools'
import { contextWith } from './services/local-service.ts'
import { add, addThree } from './tools/calculator.ts'
import { ring } from './tools/doorbell.ts'
import { getTimestamp } from './tools/system.ts'

const CONTEXT = contextWith({})

describe('the demo toolkit', () => {
  it('loads without problems, in the order of the documents', async () => {
    const { tools, problems } = await loadTools(
      await loadConfig(new URL('collet.config.ts', import.meta.url).pathname),
    )
    expect(problems).toEqual([])
    expect(
      tools.map(({ id, name, policy }) => `${id} ${name} ${policy.safetyTier} ${policy.replay}`),
    ).toEqual([
      'Calculator.Add@1.0.0 Calculator_Add pure deterministic',
      'Calculator.Add@1.1.0 Calculator_Add pure deterministic',
      'Doorbell.Ring@0.1.0 Doorbell_Ring write non-deterministic',
      'Guide.Explain@1.0.0 Guide_Explain read idempotent',
      'Guide.Topic@1.0.0 Guide_Topic read idempotent',
      'Notebook.Run@1.0.0 Notebook_Run write non-deterministic',
      'System.GetTimestamp@1.0.0 System_GetTimestamp read non-deterministic',
      'Gmail.GetEmails@1.2.0 Gmail_GetEmails read non-deterministic',
      'SMS.Send@0.1.2 SMS_Send write non-deterministic',
    ])
  })

  it('publishes the schemas of the documents', async () => {
    const { tools } = await loadTools(await loadConfig(new URL('collet.config.ts', import.meta.url).pathname))
    const schemas = new Map(
      tools.map(({ id, inputSchema, outputSchema }) => [id, { inputSchema, outputSchema }]),
    )
    expect(schemas.get('Calculator.Add@1.0.0')).toMatchObject({
      inputSchema: {
        type: 'object',
        properties: {
          a: { type: 'number', description: 'The first number to add.' },
          b: { type: 'number', description: 'The second number to add.' },
        },
        required: ['a', 'b'],
      },
      outputSchema: { type: 'number', description: 'The sum of the two numbers.' },
    })
    expect(schemas.get('Doorbell.Ring@0.1.0')?.outputSchema).toBeNull()
    expect(schemas.get('System.GetTimestamp@1.0.0')?.inputSchema).toEqual({
      type: 'object',
      properties: {},
    })
    expect(schemas.get('Gmail.GetEmails@1.2.0')?.inputSchema).not.toHaveProperty('required')
    expect(tools.find(({ id }) => id === 'Gmail.GetEmails@1.2.0')?.requirements).toEqual({
      authorization: [
        { id: 'google', oauth2: { scopes: ['https://www.googleapis.com/auth/gmail.readonly'] } },
      ],
    })
    expect(schemas.get('SMS.Send@0.1.2')?.inputSchema).toMatchObject({ required: ['to', 'message'] })
  })

  it('adds two numbers, or three', () => {
    expect(add.run({ a: 10, b: 5 }, CONTEXT)).toBe(15)
    expect(addThree.run({ a: 1, b: 2 }, CONTEXT)).toBe(3)
    expect(addThree.run({ a: 1, b: 2, c: 3 }, CONTEXT)).toBe(6)
  })

  it('rings known doorbells, and fails as documented for others', () => {
    expect(ring.run({ doorbell_id: 'doorbell42' }, CONTEXT)).toBeUndefined()
    expect(() => ring.run({ doorbell_id: 'doorbell1' }, CONTEXT)).toThrow(
      expect.objectContaining({
        message: 'Doorbell ID not found',
        developerMessage: "The doorbell with ID 'doorbell1' does not exist.",
        canRetry: true,
        additionalPromptContent: 'ids: doorbell42,doorbell84',
        retryAfterMs: 500,
      }),
    )
  })

  it('tells the time', () => {
    expect(getTimestamp.run({}, CONTEXT)).toEqual({ timestamp: expect.stringMatching(/^\d{4}-.*Z$/) })
  })
})
