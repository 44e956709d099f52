import { describe, expect, it } from 'vitest'
import { DefinitionError } from './errors.ts'

describe('DefinitionError', () => {
  it('lists every finding under its file and tool, with the fix', () => {
    const error = new DefinitionError([
      {
        toolId: 'Mail.Send@1.0.0',
        file: 'tools/mail.ts',
        where: 'name',
        problem: 'Is "a.b".',
        fix: 'Write "a_b".',
      },
      {
        toolId: 'Mail.Send@1.0.0',
        file: 'tools/mail.ts',
        where: 'run',
        problem: 'Is missing.',
        fix: 'Write it.',
      },
      { toolId: '(no id)', where: 'id', problem: 'Is missing.', fix: 'Write `A.B@1.0.0`.' },
    ])
    expect(error.findings).toHaveLength(3)
    expect(error.message).toBe(
      [
        '3 problems in the tool definitions:',
        '',
        'tools/mail.ts: Mail.Send@1.0.0',
        '  name: Is "a.b".',
        '    → Write "a_b".',
        '  run: Is missing.',
        '    → Write it.',
        '',
        '(no id)',
        '  id: Is missing.',
        '    → Write `A.B@1.0.0`.',
      ].join('\n'),
    )
  })
})
