import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CallFailure } from './failure.ts'

describe('CallFailure', () => {
  it('OTC-86, OTC-96: model text has message, parameter errors and prompt content', () => {
    const failure = new CallFailure('tool', 'No such doorbell.', {
      developerMessage: 'row 42 missing',
      additionalPromptContent: 'Valid ids: a, b',
      parameterErrors: { doorbell_id: 'Unknown' },
    })
    expect(failure.modelText).toBe('No such doorbell.\n- doorbell_id: Unknown\nValid ids: a, b')
  })

  it('OTC-96: model text does not repeat parameter errors that the message lists', () => {
    const message = 'The input of A.B@1.0.0 is invalid: a: Is required; b: Is odd; b: Must be at least 3.'
    const parameterErrors = { a: 'Is required.', b: 'Is odd; Must be at least 3', c: 'Is required' }
    expect(new CallFailure('validation', message, { parameterErrors }).modelText).toBe(
      `${message}\n- c: Is required`,
    )
  })

  it('OTC-86: developer text is in neither model text nor JSON', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (message, prompt) => {
        const failure = new CallFailure('server', message, {
          developerMessage: 'INTERNAL-7f3a',
          additionalPromptContent: prompt,
          cause: new Error('INTERNAL-7f3a'),
        })
        expect(failure.modelText).not.toContain('INTERNAL-7f3a')
        expect(JSON.stringify(failure)).not.toContain('INTERNAL-7f3a')
        expect(String(failure)).not.toContain('INTERNAL-7f3a')
      }),
    )
  })

  it('JSON contains the members that a caller acts on', () => {
    const failure = new CallFailure('validation', 'm', {
      callId: 'x',
      status: 422,
      parameterErrors: { a: 'b' },
    })
    expect(JSON.parse(JSON.stringify(failure))).toMatchObject({
      name: 'CallFailure',
      class: 'validation',
      message: 'm',
      callId: 'x',
      status: 422,
      parameterErrors: { a: 'b' },
    })
  })

  it('OTC-77: challenges of authorization and approval are one list', () => {
    const missing = { authorization: [{ url: 'https://a/' }], approval: [{ url: 'https://b/' }] }
    expect(new CallFailure('authorization_required', 'm', { missing }).challenges).toEqual([
      { url: 'https://a/' },
      { url: 'https://b/' },
    ])
  })
})
