import { describe, expect, it } from 'vitest'
import { neededBy } from './access-data.ts'

const LISTING = {
  tools: [{ id: 'Mail.Send', needs: [0, 1] }, { id: 'Mail.List', needs: [1, 2] }, { id: 'Plain.Echo' }],
  requirements: [
    { kind: 'secret', id: 'MAIL_KEY' },
    { kind: 'oauth', id: 'google' },
    { kind: 'oauth', id: 'google' },
  ],
}

describe('the requirements of tools', () => {
  it('are grouped by kind: each id once, with its tools', () => {
    expect([...neededBy(LISTING, 'oauth')]).toEqual([['google', ['Mail.Send', 'Mail.List']]])
    expect([...neededBy(LISTING, 'secret')]).toEqual([['MAIL_KEY', ['Mail.Send']]])
  })
})
