import { expect, it } from 'vitest'
import { adviceFor } from './answer-view.tsx'

it('the advice states only once that nothing ran', () => {
  expect(adviceFor(429, { message: 'Too many calls. Nothing was run; try again later.' }, {})).toBe('')
  expect(adviceFor(403, { message: 'Not for you.' }, {})).toBe('Nothing ran.')
  const missing = { missing_requirements: { user_id: {} } }
  expect(adviceFor(400, { ...missing, message: 'It needs a user id. Nothing was run.' }, {})).toBe(
    'Fill in the user id.',
  )
  expect(adviceFor(400, { ...missing, message: 'It needs a user id.' }, {})).toBe(
    'Nothing ran. Fill in the user id.',
  )
  expect(adviceFor(422, { message: 'Wrong.' }, { hasResult: true })).toBe(
    'Nothing ran. Invalid fields are marked in the form.',
  )
  expect(adviceFor(200, { message: 'Broke.', can_retry: true }, { hasResult: true })).toBe(
    'Nothing took effect. The call may be repeated.',
  )
  const ran = 'The tool may have run. Check the call before you run it again.'
  const tiers = { pure: '', read: '', write: ran, exec: ran } as const
  for (const tier of ['pure', 'read', 'write', 'exec'] as const)
    expect(adviceFor(200, { message: 'Broke.' }, { hasResult: true, tier })).toBe(tiers[tier])
  expect(adviceFor(200, { message: 'Broke.' }, { hasResult: true })).toBe(ran)
})
