import { describe, expect, it } from 'vitest'
import { type Outcome, type TestedTool, testOf } from './snippets.ts'

const CONNECT = { how: 'vault', says: '', command: null } as const
const NEEDY: TestedTool['requirements'] = [
  { kind: 'secret', id: 'MAIL_KEY', scopes: [], state: 'met', connect: CONNECT },
  { kind: 'oauth', id: 'google', scopes: [], state: 'met', connect: CONNECT },
  { kind: 'user', id: 'user', scopes: [], state: 'per_user', connect: CONNECT },
]

describe('a call as a test', () => {
  const call = { input: { text: 'post' }, userId: undefined }
  const seen: Outcome = { isGood: true, value: { letters: 4 } }

  it('expects the same value, or the same error message', () => {
    const tool = { base: 'Mail.Count', requirements: [] }
    expect(testOf(tool, call, seen)).toContain('(result.ok && result.value, {\n    "letters": 4\n  })')
    expect(testOf(tool, call, { isGood: false, message: 'No "post".' })).toContain(
      '(!result.ok && result.error.message, "No \\"post\\".")',
    )
  })

  it('has a placeholder for each credential', () => {
    const text = testOf({ base: 'Mail.Count', requirements: NEEDY }, { ...call, userId: 'ann' }, seen)
    expect(text).toContain(
      `{ secrets: { "MAIL_KEY": 'for a test' }, tokens: { "google": 'for a test' }, userId: "ann" }`,
    )
  })

  it('turns the name of a tool into an identifier', () => {
    const nameIn = (base: string): string =>
      /import \{ (\S+) \} from '.\/tools/.exec(testOf({ base, requirements: [] }, call, seen))?.[1] ?? ''
    expect(nameIn('Gmail.GetEmails')).toBe('getEmailsTool')
    expect(nameIn('mail.get-letters')).toBe('getLettersTool')
    expect(nameIn('Kit.delete')).toBe('deleteTool')
    expect(nameIn('Kit.2fa')).toBe('testedTool')
  })
})
