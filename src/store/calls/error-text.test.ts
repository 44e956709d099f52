import { describe, expect, it } from 'vitest'
import { errorLine, patternOfError } from './error-text.ts'

describe('the pattern of an error message', () => {
  it.each([
    ['Order A-1042 was not found.', 'Order B-7 was not found.'],
    [
      'Access denied - path outside allowed directories: /home/ann/a.txt not in /srv/x',
      'Access denied - path outside allowed directories: /tmp/b.txt not in /srv/y',
    ],
    ['connect ECONNREFUSED 127.0.0.1:5432', 'connect ECONNREFUSED 127.0.0.1:5433'],
    ['No user "ann@example.com" in 3 tenants', 'No user "bob" in 12 tenants'],
    [
      'Request 0f8fad5b-d9cb-469f-a165-70867728950e failed at 2026-01-31T10:00:00Z',
      'Request 7c9e6679-7425-40de-944b-e07fc1f90ae7 failed at 2026-02-01T11:30:00.123Z',
    ],
    [
      'GET https://api.example.com/v1/items/5?x=1 answered 503',
      'GET https://api.example.com/v1/items/77 answered 503',
    ],
  ])('is equal for failures that differ in ids and numbers: %s', (one, other) => {
    expect(patternOfError(one)).toBe(patternOfError(other))
  })
  it('keeps the words, so that other failures stay apart', () => {
    expect(patternOfError('Order A-1042 was not found.')).toBe('Order … was not found.')
    expect(patternOfError("The tool couldn't reach 'api'.")).toBe("The tool couldn't reach ….")
    expect(patternOfError('GET https://api.example.com/v1/items/5 failed')).toBe(
      'GET https://api.example.com… failed',
    )
    expect(patternOfError('no such label')).not.toBe(patternOfError('no such file'))
  })
  it('is short and on one line, however long the message is', () => {
    const long = `line one\n  line two ${'word '.repeat(20_000)}`
    expect(patternOfError(long).length).toBeLessThanOrEqual(300)
    expect(errorLine(long)).toMatch(/^line one line two word .*…$/)
    expect(patternOfError('a'.repeat(1_000_000))).toHaveLength(300)
  })
})
