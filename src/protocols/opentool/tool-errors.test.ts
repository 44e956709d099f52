import { describe, expect, it } from 'vitest'
import type { ToolError } from '#core/errors'
import { toWireError } from './errors.ts'
import { functionNotSupported, invalidArguments, jsonParser, toolBreak } from './tool-errors.ts'

describe('errors for tools', () => {
  it.each<[number, string, ToolError]>([
    [405, 'Function Not Supported: x', functionNotSupported('x')],
    [400, 'Invalid Arguments: b is zero', invalidArguments('b is zero')],
    [500, 'The device is gone.', toolBreak('The device is gone.')],
    [404, 'Json Parser NOT implement', jsonParser()],
  ])('OTS-68: %i is %j', (code, message, error) => {
    expect(toWireError(error, { method: 'f', callId: 'c' })).toMatchObject({ code, message })
  })

  it('keep what else the author says', () => {
    const error = invalidArguments('b is zero', { canRetry: true, developerMessage: 'div.ts' })
    expect([error.canRetry, error.developerMessage, error.code]).toEqual([true, 'div.ts', 'tool_failed'])
  })
})
