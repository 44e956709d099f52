import { describe, expect, it } from 'vitest'
import { DefinitionError } from '#kernel/base/errors'
import { ALICE, openTestGateway } from '#testing/test-gateway'
import { noting, TEXT } from '../../../test/samples/workflows.ts'
import type { DefinedTool } from './define.ts'
import { tool, workflow } from './define.ts'
import { requireTools } from './prepare-tools.ts'

describe('a workflow’s properties', () => {
  const effects: string[] = []
  const flowOf = (id: string, uses: readonly (string | DefinedTool)[], policy = {}) =>
    workflow({ id, description: 'F.', input: TEXT, output: {}, uses, policy, run: () => null })

  it('OWP-31, OWP-34, OWP-35, OWP-37: the worst tier and egress of its steps, and all their scopes', () => {
    const pure = noting('A.Pure@1.0.0', effects, { safetyTier: 'pure', egress: 'none' })
    const read = noting('A.Read@1.0.0', effects, {
      safetyTier: 'read',
      egress: 'safe-fetch',
      scopes: ['a:read'],
    })
    const write = noting('A.Write@1.0.0', effects, { approval: 'always', scopes: ['a:write'] })
    const tools = [
      pure,
      read,
      write,
      flowOf('F.Light@1.0.0', [pure, read], { scopes: ['f'] }),
      flowOf('F.Heavy@1.0.0', [read, write]),
    ]
    const gateway = openTestGateway(tools)
    const admin = { ...ALICE, scopes: ['*'] }
    const light = gateway.catalogFor(admin).get('F.Light@1.0.0')
    const heavy = gateway.catalogFor(admin).get('F.Heavy@1.0.0')
    expect(light).toMatchObject({
      source: 'workflow',
      catalogId: 'workflow:F.Light',
      policy: { safetyTier: 'read', egress: 'safe-fetch', scopes: ['f', 'a:read'] },
    })
    expect(heavy?.policy).toMatchObject({
      safetyTier: 'write',
      approval: 'never',
      scopes: ['a:read', 'a:write'],
    })
    expect(heavy?.policy.egress).toBeUndefined()
  })

  it('is visible only to callers that may call every step', () => {
    const one = noting('A.One@1.0.0', effects)
    const flow = flowOf('F.Flow@1.0.0', [one])
    const outer = flowOf('F.Outer@1.0.0', [flow])
    const gateway = openTestGateway([outer, flow, one])
    const seen = (tools: readonly string[]) =>
      gateway.catalogFor({ ...ALICE, tools }).tools.map(({ id }) => id)
    expect(seen(['workflow:F.Flow', 'workflow:F.Outer'])).toEqual([])
    expect(seen(['workflow:F.Outer', 'openwop:A.One'])).toEqual(['A.One@1.0.0'])
    expect(seen(['workflow:F.Flow', 'openwop:A.One'])).toEqual(['F.Flow@1.0.0', 'A.One@1.0.0'])
  })

  it('is hidden from a caller that may call some of its steps but not all', () => {
    const open = noting('A.Open@1.0.0', effects)
    const guarded = noting('A.Guarded@1.0.0', effects, { scopes: ['a:guarded'] })
    const gateway = openTestGateway([open, guarded, flowOf('F.Flow@1.0.0', [open, guarded])])
    const seen = (scopes: readonly string[]) =>
      gateway.catalogFor({ ...ALICE, scopes }).tools.map(({ id }) => id)
    expect(seen([])).toEqual(['A.Open@1.0.0'])
    expect(seen(['a:guarded'])).toContain('F.Flow@1.0.0')
    const listed = gateway.catalogFor({ ...ALICE, scopes: ['*'], tools: ['A.Open', 'F.Flow'] })
    expect(listed.tools.map(({ id }) => id)).toEqual(['A.Open@1.0.0'])
  })

  it('rule 31: its digest covers the digests of its steps', () => {
    const hashOf = (description: string) => {
      const one = tool({ id: 'A.One@1.0.0', description, input: TEXT, output: {}, run: () => null })
      return openTestGateway([one, flowOf('F.Flow@1.0.0', [one])])
        .catalogFor(ALICE)
        .get('F.Flow@1.0.0')?.definitionHash
    }
    expect(hashOf('A.')).toBe(hashOf('A.'))
    expect(hashOf('A.')).not.toBe(hashOf('B.'))
  })

  it('findings: unknown tools, cycles, depth, derived members, and exec steps', () => {
    const problems = (...tools: readonly unknown[]) => {
      try {
        requireTools(tools)
        return ''
      } catch (error) {
        return error instanceof DefinitionError ? error.message : String(error)
      }
    }
    const one = noting('A.One@1.0.0', effects)
    expect(problems(one, flowOf('F.Flow@1.0.0', ['A_On']))).toContain(
      'No tool is called "A_On". Did you mean "A_One"?',
    )
    expect(problems(one, flowOf('F.Flow@1.0.0', ['A.On']))).toContain(
      'No tool is called "A.On". Did you mean',
    )
    expect(problems(one, flowOf('F.Flow@1.0.0', []))).toContain('uses:')
    expect(problems(one, flowOf('F.Flow@1.0.0', ['not an id']))).toContain('uses:')
    expect(problems(flowOf('F.A@1.0.0', ['F.B']), flowOf('F.B@1.0.0', ['F.A']))).toContain(
      'Calls itself: F.A@1.0.0 → F.B@1.0.0 → F.A@1.0.0',
    )
    expect(problems(one, flowOf('F.Flow@1.0.0', [one], { safetyTier: 'read' }))).toContain(
      'Is derived from `uses`',
    )
    const chain = Array.from({ length: 9 }, (_, index) =>
      flowOf(`F.N${index}@1.0.0`, index === 0 ? [one] : [`F.N${index - 1}`]),
    )
    expect(problems(one, ...chain)).toContain('Workflows are nested 9 levels deep here; the maximum is 8.')
    expect(problems(one, ...chain.slice(0, 8))).toBe('')
    expect(problems({ ...one, uses: ['A.One'] })).toContain('"uses" is not a known member')
  })
})
