import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseToolRef } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import { coversScope } from '#kernel/base/principal'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { Registry } from './catalog.ts'

const named = (id: string, scopes: string[] = []) => sampleTool(id, () => null, { policy: { scopes } })
const ref = (text: string) => {
  const parsed = parseToolRef(text)
  if (parsed === undefined) throw new Error(text)
  return parsed
}
const who = (scopes: string[], tools?: string[]): Principal => ({
  id: 'key:x',
  tenant: 'default',
  scopes,
  ...(tools === undefined ? {} : { tools }),
})

const TOOLS = [
  named('Mail.Send@1.0.0', ['mail:send']),
  named('Mail.Send@2.0.0', ['mail:send', 'mail:beta']),
  named('Mail.Read@1.0.0', ['mail:read']),
  named('Open.Say@1.0.0'),
]

describe('Registry.catalogFor', () => {
  const registry = new Registry(TOOLS)

  it('OWP-57, rule 2: an allow-list hides every other tool from every look-up', () => {
    const catalog = registry.catalogFor(who(['*'], ['openwop:Open.Say', 'openwop:Not.There']))
    expect(catalog.tools.map(({ id }) => id)).toEqual(['Open.Say@1.0.0'])
    expect(catalog.bases()).toEqual(['Open.Say'])
    expect(catalog.resolve(ref('Mail.Read'))).toBeUndefined()
    expect(catalog.resolve(ref('Mail.Read@1.0.0'))).toBeUndefined()
    expect(catalog.get('Mail.Read@1.0.0')).toBeUndefined()
    expect(catalog.find('openwop:Mail.Read')).toBeUndefined()
    expect(catalog.versionsOf('Mail.Read')).toEqual([])
    expect(registry.catalogFor(who(['*'], [])).tools).toEqual([])
  })

  it('OWP-57: an allow-list does not add tools that the scopes do not allow', () => {
    expect(registry.catalogFor(who([], ['openwop:Mail.Read'])).tools).toEqual([])
  })

  it('rule 2: `latest` is the newest version that the principal may see', () => {
    expect(registry.catalogFor(who(['mail:send'])).resolve(ref('Mail.Send'))?.id).toBe('Mail.Send@1.0.0')
    expect(registry.catalogFor(who(['mail:*'])).find('openwop:Mail.Send')?.id).toBe('Mail.Send@2.0.0')
  })

  it('is computed once per set of covered scopes and allow-list', () => {
    const first = registry.catalogFor(who(['mail:read', 'own:1'], ['openwop:Mail.Read', 'openwop:Open.Say']))
    const same = registry.catalogFor(
      who(['mail:read', 'own:2'], ['openwop:Open.Say', 'openwop:Mail.Read', 'openwop:Open.Say']),
    )
    expect(same).toBe(first)
    expect(registry.catalogFor(who(['mail:read']))).not.toBe(first)
    expect(registry.catalogFor(who(['mail:read'], []))).not.toBe(registry.catalogFor(who(['mail:read'])))
  })

  it('OWP-21: shows exactly the tools whose every scope is covered', () => {
    const scope = fc.constantFrom('mail:send', 'mail:beta', 'mail:read', 'mail:*', '*:read', '*', 'x:y')
    const ids = fc.option(fc.subarray(TOOLS.map(({ catalogId }) => catalogId)), { nil: undefined })
    fc.assert(
      fc.property(fc.array(scope), ids, (scopes, tools) => {
        const expected = TOOLS.filter(
          ({ policy, catalogId }) =>
            policy.scopes.every((needed) => coversScope(scopes, needed)) &&
            tools?.includes(catalogId) !== false,
        )
        expect(registry.catalogFor(who(scopes, tools)).tools).toEqual(expected)
      }),
    )
  })

  it('limits the number of tools in lists, and the number of catalogs', () => {
    const many = Array.from({ length: 2_000 }, (_, index) => named(`Many.Tool${index}@1.0.0`))
    const large = new Registry(many)
    const ids = many.map(({ catalogId }) => catalogId)
    const listed = (index: number) => who([], [...ids.slice(0, index), ...ids.slice(index + 1)])
    const first = large.catalogFor(listed(0))
    expect(first.tools).toHaveLength(1_999)
    expect(large.catalogFor(listed(0))).toBe(first)
    for (let index = 1; index <= 100; index += 1)
      expect(large.catalogFor(listed(index)).tools).toHaveLength(1_999)
    expect(large.catalogFor(listed(0))).not.toBe(first)
    const unlisted = large.catalogFor(who([], ['openwop:Many.Tool7']))
    for (let index = 0; index < 1_100; index += 1)
      large.catalogFor(who([], [`openwop:Many.Tool${index}`, 'x']))
    expect(large.catalogFor(who([], ['openwop:Many.Tool7']))).not.toBe(unlisted)
  })
})
