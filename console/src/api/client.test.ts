import { afterEach, expect, it, vi } from 'vitest'
import { requestJson, sessionEnded } from './client.ts'
import { connection } from './connection.ts'
import { sessionToken } from './session-token.ts'

afterEach(() => {
  connection.found()
  sessionEnded.set(false)
  vi.unstubAllGlobals()
})

it.each([
  ['in the session that sent the request', 'one', true],
  ['after another sign-in', 'two', false],
])('a 401 that arrives %s', async (_, after, isGone) => {
  vi.stubGlobal('document', { baseURI: 'http://127.0.0.1/console/' })
  sessionToken.keep('one')
  const answer = Promise.withResolvers<Response>()
  vi.stubGlobal('fetch', () => answer.promise)
  const asked = requestJson('/admin/calls')
  sessionToken.keep(after)
  answer.resolve(new Response('{}', { status: 401 }))
  await expect(asked).rejects.toThrow('Your session has ended.')
  expect(sessionEnded.get()).toBe(isGone)
  sessionToken.forget()
})
