import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tool } from '#kernel/tool/define'
import { ALICE, callRequest, errorOf, openTestGateway } from '#testing/test-gateway'

const forecast = tool({
  id: 'Weather.Forecast@1.0.0',
  description: 'Tells the weather.',
  input: z.strictObject({
    city: z.string().describe('Where.'),
    day: z.iso.date().optional().describe('When.'),
  }),
  output: z.string(),
  run: () => 'sunny',
})

async function messageFor(toolName: string, input: Record<string, string>): Promise<string> {
  const gateway = openTestGateway([forecast])
  const { message } = errorOf(await gateway.call(ALICE, callRequest(toolName, { input })))
  await gateway.drain(0)
  return message
}

describe('the message for an invalid or unknown call', () => {
  it('OTC-80: is one sentence with one full stop', async () => {
    expect(await messageFor('Weather.Forecast', { city: 'Rome', dya: 'x' })).toBe(
      'The input of Weather.Forecast@1.0.0 is invalid: dya: Is not known here (did you mean "day"?).',
    )
    expect(await messageFor('Weather.Forecast', { city: 'Rome', colour: 'x' })).toMatch(
      /colour: Is not known here\.$/,
    )
  })

  it('OTC-80: names a format instead of its pattern', async () => {
    expect(await messageFor('Weather.Forecast', { city: 'Rome', day: 'tomorrow' })).toMatch(
      /: day: Must be a date such as 2026-01-31\.$/,
    )
  })

  it('explains how to find a tool in words that fit HTTP and other protocols', async () => {
    expect(await messageFor('Nothing.Alike', {})).toBe(
      "Tool 'Nothing.Alike' was not found. List the tools to see what is served.",
    )
  })

  it('lists the tools of the toolkit if no name is similar', async () => {
    expect(await messageFor('Weather.Completely_different', {})).toBe(
      "Tool 'Weather.Completely_different' was not found. Weather has Weather.Forecast.",
    )
  })
})
