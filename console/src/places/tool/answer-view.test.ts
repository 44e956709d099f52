import { expect, it } from 'vitest'
import { adviceFor } from './answer-view.tsx'

it('what to do next says once that nothing ran', () => {
  expect(adviceFor(429, { message: 'Too many calls. Nothing was run; try again later.' }, false)).toBe('')
  expect(adviceFor(403, { message: 'Not for you.' }, false)).toBe('Nothing ran.')
  const missing = { missing_requirements: { user_id: {} } }
  expect(adviceFor(400, { ...missing, message: 'It needs a user id. Nothing was run.' }, false)).toBe(
    'Fill in the user id.',
  )
  expect(adviceFor(400, { ...missing, message: 'It needs a user id.' }, false)).toBe(
    'Nothing ran. Fill in the user id.',
  )
  expect(adviceFor(422, { message: 'Wrong.' }, true)).toBe(
    'Nothing ran. What does not fit is marked in the form.',
  )
  expect(adviceFor(200, { message: 'Broke.', can_retry: true }, true)).toBe(
    'Nothing took effect. It may be run again.',
  )
})
