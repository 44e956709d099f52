import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import type { Obtained } from './client.ts'
import { OwnTokens, Refusals } from './own-tokens.ts'

function setting(answers: readonly (number | 'refused')[]) {
  let nowMs = 0
  const asked: string[] = []
  const queue = [...answers]
  const obtain = async (scopes: readonly string[]): Promise<Obtained> => {
    asked.push(scopes.join(' '))
    const answer = queue.shift() ?? 'refused'
    if (answer === 'refused') return { kind: 'refused', reason: 'invalid_client' }
    const accessToken = new Secret(`token-${asked.length}`)
    return {
      kind: 'tokens',
      tokens: { accessToken, refreshToken: undefined, scopes, expiresAtMs: nowMs + answer },
    }
  }
  const tokens = new OwnTokens(obtain, { nowMs: () => nowMs, monotonicMs: () => nowMs })
  const find = async (owner: string, ...scopes: readonly string[]): Promise<string> => {
    const answer = await tokens.find(owner, scopes)
    return answer.kind === 'tokens' ? answer.tokens.accessToken.reveal() : answer.kind
  }
  return {
    tokens,
    asked,
    find,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

describe('tokens of this server', () => {
  it('MCP-159: are requested once for all calls of an owner, and not shared with another', async () => {
    const { find, asked } = setting([60_000, 60_000])
    expect(await Promise.all([find('a', 'x', 'y'), find('a', 'y', 'x'), find('b', 'x', 'y')])).toEqual([
      'token-1',
      'token-1',
      'token-2',
    ])
    expect(asked).toHaveLength(2)
  })

  it('are requested again before they expire', async () => {
    const { find, pass } = setting([600_000, 600_000])
    expect(await find('a')).toBe('token-1')
    pass(539_000)
    expect(await find('a')).toBe('token-1')
    pass(2_000)
    expect(await find('a')).toBe('token-2')
  })

  it('MCP-164: after a refusal the provider is not asked again immediately', async () => {
    const { find, asked, pass } = setting(['refused', 60_000])
    expect([await find('a'), await find('a')]).toEqual(['refused', 'refused'])
    expect(asked).toHaveLength(1)
    pass(5_000)
    expect(await find('a')).toBe('token-2')
  })

  it('MCP-161: a refused token is dropped, and no other', async () => {
    const { find, tokens } = setting([60_000, 60_000, 60_000])
    await find('a')
    await find('b')
    tokens.drop(new Secret('token-1'))
    expect([await find('a'), await find('b')]).toEqual(['token-3', 'token-2'])
  })
})

describe('refusals', () => {
  it('MCP-160: records scopes by tool, and reports each as new once', () => {
    const refusals = new Refusals()
    expect(refusals.noteScopes('up', 'Up.send@1.0.0', ['a'])).toBe(true)
    expect(refusals.noteScopes('up', 'Up.send@1.0.0', ['a'])).toBe(false)
    expect(refusals.noteScopes('up', 'Up.send@1.0.0', ['a', 'b'])).toBe(true)
    expect(refusals.scopesFor('up', 'Up.send@1.0.0')).toEqual(['a', 'b'])
    expect(refusals.scopesFor('up', 'Up.read@1.0.0')).toEqual([])
  })
})
