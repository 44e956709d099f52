import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LOCAL_CALLER, type Principal } from '#kernel/base/principal'
import type { ToolRequirements } from '#kernel/tool/tool'
import { ALICE, callRequest, errorOf, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'

const ASKED = 'Who.Am@1.0.0'
const USERS = ['ann', 'bob', 'tester', 'a#b']
const PRINCIPALS: readonly Principal[] = [
  ALICE,
  { id: 'anonymous', tenant: 'default', scopes: [] },
  LOCAL_CALLER,
  { id: 'key:ann', tenant: 'default', scopes: ['mail:send'] },
  { id: 'key:agent', tenant: 'default', scopes: ['users:assert'] },
  { id: 'key:all', tenant: 'default', scopes: ['*'] },
  { id: 'jwt:https://login.example#ann', tenant: 'default', scopes: [] },
  { id: 'jwt:#a#b', tenant: 'default', scopes: [] },
]

const userTool = (requirements: ToolRequirements = {}) =>
  sampleTool(
    ASKED,
    (_input, { userId = null, claimedUserId = null, userInfo = null }) => ({
      userId,
      claimedUserId,
      userInfo,
    }),
    { requirements },
  )

async function reported(principal: Principal, userId: string | undefined, requirements?: ToolRequirements) {
  const reply = await openTestGateway([userTool(requirements)]).call(
    principal,
    callRequest(ASKED, { userId }),
  )
  return reply.outcome.ok ? JSON.parse(reply.outcome.valueJson) : reply.outcome.error.code
}

/** A second, independent implementation of the rule. */
function proves({ id, scopes, isLocal }: Principal, userId: string): boolean {
  if (isLocal === true) return true
  const isSubject = id.startsWith('jwt:') && id.slice(id.indexOf('#') + 1) === userId
  return isSubject || scopes.some((scope) => scope === 'users:assert' || scope === '*')
}

describe('the user of a call (T-27)', () => {
  it('is the subject of the caller’s token unless the call names one; ctx.userId has only a proven user, ctx.claimedUserId any', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...PRINCIPALS),
        fc.option(fc.constantFrom(...USERS), { nil: undefined }),
        async (principal, userId) => {
          const own = principal.id.startsWith('jwt:')
            ? principal.id.slice(principal.id.indexOf('#') + 1)
            : undefined
          const asked = userId ?? own
          const proven = asked !== undefined && proves(principal, asked) ? asked : null
          expect(await reported(principal, userId)).toEqual({
            userId: proven,
            claimedUserId: asked ?? null,
            userInfo: null,
          })
        },
      ),
    )
  })

  it('a tool that needs a user accepts a proven one; a tool with `claimed` accepts any', async () => {
    const own = { id: 'jwt:https://login.example#ann', tenant: 'default', scopes: [] }
    expect(await reported(own, 'ann', { userId: true })).toMatchObject({ userId: 'ann' })
    expect(await reported(own, 'bob', { userId: true })).toBe('not_authorized')
    expect(await reported(ALICE, 'ann', { userId: true })).toBe('not_authorized')
    expect(await reported(ALICE, 'ann', { userId: 'claimed' })).toMatchObject({
      userId: null,
      claimedUserId: 'ann',
    })
    for (const userId of [true, 'claimed'] as const)
      expect(await reported(ALICE, undefined, { userId })).toBe('requirement_missing')
  })

  it('the refusal explains how to fix it', async () => {
    const reply = await openTestGateway([userTool({ userId: true })]).call(
      ALICE,
      callRequest(ASKED, { userId: 'ann' }),
    )
    expect(errorOf(reply).developerMessage).toContain('users:assert')
  })

  it('the hook vouches for a user or refuses it, for every caller', async () => {
    const gateway = openTestGateway([userTool({ userId: true })], {
      hooks: { bindUser: (_principal, userId) => userId === 'ann' },
    })
    const value = async (principal: Principal, userId: string) => {
      const { outcome } = await gateway.call(principal, callRequest(ASKED, { userId }))
      return outcome.ok ? JSON.parse(outcome.valueJson).userId : outcome.error.code
    }
    expect(await value(ALICE, 'ann')).toBe('ann')
    expect(await value({ ...ALICE, scopes: ['users:assert'] }, 'bob')).toBe('not_authorized')
  })

  it('a session is opened with the same check', async () => {
    const seen: unknown[] = []
    const stateful = sampleTool(ASKED, () => 'done', {
      session: {
        open: ({ userId, claimedUserId }) => seen.push([userId, claimedUserId]),
        close: () => undefined,
        idleMs: 1_000,
      },
    })
    const gateway = openTestGateway([stateful])
    for (const scopes of [[], ['users:assert']]) {
      const principal = { ...ALICE, scopes }
      const { sessionId } = await gateway.openSession(principal, {
        toolId: stateful.catalogId,
        userId: 'ann',
      })
      // Rule 30: a session belongs to the user that the caller named, proven or not.
      expect(
        (await gateway.call(principal, callRequest(ASKED, { userId: 'ann', sessionId }))).outcome.ok,
      ).toBe(true)
      expect(
        (await gateway.call(principal, callRequest(ASKED, { userId: 'bob', sessionId }))).outcome.ok,
      ).toBe(false)
      await gateway.closeSession(principal, sessionId)
    }
    expect(seen).toEqual([
      [undefined, 'ann'],
      ['ann', 'ann'],
    ])
  })
})
