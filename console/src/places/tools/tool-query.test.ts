import { expect, it } from 'vitest'
import { commandFor } from './tool-query.ts'

it('the command below the list contains the search and filters, quoted for a shell', () => {
  expect(commandFor('', {}, undefined)).toBe('collet tools')
  expect(commandFor(' send  mail ', { tier: ['write', 'exec'], source: ['Gmail'] }, 'calls')).toBe(
    'collet tools --source Gmail --tier write,exec --sort calls send mail',
  )
  expect(commandFor("it's $(rm) -x", {}, undefined)).toBe("collet tools -- 'it'\\''s' '$(rm)' -x")
})
