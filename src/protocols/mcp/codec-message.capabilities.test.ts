import { describe, expect, it } from 'vitest'
import { readCapabilities } from './codec-message.ts'

describe('questions that a client accepts', () => {
  it.each([
    [{}, { form: false, url: false }],
    [{ elicitation: {} }, { form: true, url: false }],
    [{ elicitation: { form: {} } }, { form: true, url: false }],
    [{ elicitation: { url: {} } }, { form: false, url: true }],
    [{ elicitation: { form: {}, url: {} } }, { form: true, url: true }],
  ])('MCP-71, T-19: %j', (declared, modes) => {
    expect(readCapabilities(declared, '2026-07-28')).toMatchObject(modes)
    expect(readCapabilities(declared, '2025-11-25')).toMatchObject(modes)
  })

  it('MCP-71: the first revision has forms only', () => {
    expect(readCapabilities({ elicitation: { url: {} } }, '2025-06-18')).toMatchObject({
      form: true,
      url: false,
    })
  })
})
