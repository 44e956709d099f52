import { expect, it } from 'vitest'
import { commandFor } from './catalog-query.ts'

it('the command under the list says what is set, and a shell takes every word as it is', () => {
  expect(commandFor('', {}, undefined)).toBe('collet tools')
  expect(commandFor(' send  mail ', { tier: ['write', 'exec'], source: ['Gmail'] }, 'calls')).toBe(
    'collet tools --source Gmail --tier write,exec --sort calls send mail',
  )
  expect(commandFor("it's $(rm) -x", {}, undefined)).toBe("collet tools -- 'it'\\''s' '$(rm)' -x")
})
