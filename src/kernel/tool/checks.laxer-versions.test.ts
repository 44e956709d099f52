import { describe, expect, it } from 'vitest'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { checkLaxerVersions } from './checks.ts'
import type { ToolPolicy } from './tool.ts'

const versions = (older: Partial<ToolPolicy>, newer: Partial<ToolPolicy>) => [
  sampleTool('Mail.Send@2.0.0', () => 1, { policy: newer }),
  sampleTool('Mail.Send@1.0.0', () => 1, { policy: older }),
]

describe('checkLaxerVersions', () => {
  it.each([
    ['approval', { approval: 'never' }, { approval: 'always' }],
    ['approval', { approval: 'conditional' }, { approval: 'always' }],
    ['safetyTier', { safetyTier: 'read' }, { safetyTier: 'write' }],
    ['mail:send', { scopes: [] }, { scopes: ['mail:send'] }],
  ] as const)('rule 21: finds an old version that is laxer about %s', (what, older, newer) => {
    const [finding, ...more] = checkLaxerVersions(versions(older, newer), [])
    expect(finding).toMatchObject({ toolId: 'Mail.Send@1.0.0', where: 'policy' })
    expect(finding?.problem).toContain(what)
    expect(more).toEqual([])
    expect(checkLaxerVersions(versions(older, newer), ['Mail.Send@1.0.0'])).toEqual([])
    expect(checkLaxerVersions(versions(older, newer), ['Mail.Send@2.0.0'])).toHaveLength(1)
  })

  it('accepts any name of the old version, but no name without a version', () => {
    const tools = versions({ approval: 'never' }, { approval: 'always' })
    for (const name of ['Mail.Send@1', 'Mail_Send@1.0.0', 'openwop:Mail.Send@1.0.0', 'openwop:Mail.Send@1']) {
      expect(checkLaxerVersions(tools, [name])).toEqual([])
    }
    for (const name of ['Mail.Send', 'Mail_Send', 'openwop:Mail.Send', 'Mail_Sent@1.0.0', '']) {
      expect(checkLaxerVersions(tools, [name])).toHaveLength(1)
    }
  })

  it('accepts an old version that is as strict or stricter', () => {
    expect(checkLaxerVersions(versions({}, {}), [])).toEqual([])
    const strict = { approval: 'always', safetyTier: 'write', scopes: ['a', 'b'] } as const
    expect(checkLaxerVersions(versions(strict, { scopes: ['b'] }), [])).toEqual([])
  })
})
