import { describe, expect, it } from 'vitest'
import { createLog } from './log.ts'
import { type CallLine, terminalLines } from './terminal-lines.ts'

const now = () => new Date(2026, 0, 2, 3, 4, 5)
const plain = terminalLines({ isColored: false, now })
const call: CallLine = {
  tool: 'Mail.Send@1.0.0',
  principal: 'key:ann',
  protocol: 'mcp',
  durationMs: 12.3,
  outcome: 'ok',
  isReplay: false,
}

describe('lines for a terminal', () => {
  it('show when a call ended, its tool, duration, caller and outcome', () => {
    expect(plain.call(call)).toBe('03:04:05 ✓ Mail.Send@1.0.0  12 ms  key:ann over mcp\n')
    expect(plain.call({ ...call, isReplay: true, durationMs: 0.42, protocol: undefined })).toBe(
      '03:04:05 ✓ Mail.Send@1.0.0  0.4 ms  key:ann  (stored result)\n',
    )
    expect(plain.call({ ...call, outcome: 'tool_failed', durationMs: 1_234, message: 'No.' })).toBe(
      '03:04:05 ✗ Mail.Send@1.0.0  1.2 s  tool_failed  key:ann over mcp\n           No.\n',
    )
    expect(plain.call({ ...call, outcome: 'approval_required' })).toContain('… Mail.Send')
  })

  it('have colours only if enabled, and no control characters of callers or tools', () => {
    const coloured = terminalLines({ isColored: true, now })
    expect(coloured.call(call)).toContain('\u001b[32m✓')
    for (const line of [
      plain.call({ ...call, message: '\u001b[2J', principal: 'jwt:\u001b[2J' }),
      plain.line('info', { a: '\u001b[2J' }, '\u001b[2J'),
    ])
      expect(line).not.toContain('\u001b')
  })

  it('show an error with its stack, also a thrown string', () => {
    const lines = plain.line('error', { err: new TypeError('broken'), tool: 'A.B@1.0.0' }, 'a tool threw')
    expect(lines).toMatch(/^03:04:05 error a tool threw tool=A\.B@1\.0\.0\n {9}TypeError: broken\n {11}at /)
    expect(plain.line('error', { err: 'oops' }, 'a tool threw')).toBe(
      '03:04:05 error a tool threw\n         oops\n',
    )
  })

  it('show the text of a thrown error once, although the reply repeats it', () => {
    plain.line('error', { err: new TypeError('broken') }, 'a tool threw')
    const failed = { ...call, outcome: 'tool_failed', message: 'It failed: TypeError: broken (a.ts:1)' }
    expect(plain.call(failed)).not.toContain('broken')
    expect(plain.call(failed)).toContain('broken')
  })

  it('redact credentials as JSON lines do, and show calls only at level info', () => {
    const written: string[] = []
    const stream = { write: (line: string) => void written.push(line) }
    const log = createLog('info', stream, { format: 'pretty', isColored: true })
    log.warn({ token: 's3cr3t', port: 1 }, 'odd')
    log.logCall?.(call)
    log.setLevel('warn')
    log.logCall?.(call)
    expect(written.join('')).toMatch(
      /^\d\d:\d\d:\d\d warn {2}odd token=\[redacted\] port=1\n\d\d:\d\d:\d\d ✓ Mail.*\n$/,
    )
    expect(createLog('info', stream).logCall).toBeUndefined()
  })
})
